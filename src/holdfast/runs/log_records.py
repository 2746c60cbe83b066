"""What a record of the log says of the run that it is about, beside its sentence."""

from __future__ import annotations

from typing import Any, Final

from holdfast.store.protocol import Key

FACTS: Final = "holdfast"
"""The attribute of a record that holds these facts, by name."""


def about(key: Key) -> dict[str, Any]:
    """The ``extra`` of a line about a run."""
    return {FACTS: {"tenant": key.tenant, "run": key.run}}
