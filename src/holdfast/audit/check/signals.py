"""Checks the signals that a journal carries from earlier generations: all are there, and received ones are of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.audit.check.claims import Findings
from holdfast.errors import HoldfastError
from holdfast.journal import events as e
from holdfast.journal.blobs import hydrate
from holdfast.kernel.carried_signals import CarriedSignals, SignalsMissing
from holdfast.runs.carried import carried_by


def check_signals(
    generation: int, entries: Sequence[e.Entry], blobs: Mapping[bytes, bytes], findings: Findings
) -> None:
    """Check those of one generation. A journal that carries none gets no claim."""
    signals = carried_by(entries)
    if signals is None:
        return
    try:
        carried = CarriedSignals(signals, dict(blobs))
        carried.check()
        differing = [
            entry.sequence
            for entry in entries
            if isinstance(event := hydrate(entry.event, blobs), e.SignalReceived)
            and event.delivery_id <= carried.count_of(event.signal_name)
            and carried.payload_of(event.signal_name, event.delivery_id) != event.payload
        ]
    except SignalsMissing as missing:
        findings.broken(
            "values", f"a signal that generation {generation} carries is missing: blobs/{missing.blob.hex()}."
        )
    except HoldfastError as error:
        findings.broken("values", f"generation {generation}: {error}")
    else:
        for sequence in differing:
            findings.broken("values", f"the signal received at {sequence} of generation {generation} is another one.")
        if not differing:
            what = f"the {carried.size} signals that generation {generation} carries"
            findings.proved("values", f"{what} are there, and those that it received are of them.")
