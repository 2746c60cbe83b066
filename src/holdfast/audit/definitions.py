"""The definitions that a run's journals name: what they pin, what their calls start, and what the run moved to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.audit.outline import root_of
from holdfast.errors import StoreCorrupt
from holdfast.journal import events as e
from holdfast.journal.codec import decode_segment
from holdfast.journal.revisions import code_of
from holdfast.runs.program_names import DEFINITION, digest_of_call
from holdfast.store.protocol import Run, Segment, Store

_NAMED: Final = re.compile(rb"@[0-9]{1,9}#[0-9a-f]{64}|" + e.REVISION.encode())
"""How a call of a definition, or a revision, looks in a segment. A segment without such bytes need not be decoded."""


def named_definitions(run: Run, journals: Iterable[Sequence[Segment]]) -> set[str]:
    """The digests, hexadecimal, of the definitions that journals of a run pin or start. Raises StoreCorrupt."""
    found: set[str] = set()
    for segments in journals:
        root = root_of(segments)
        for segment in segments:
            pins = run.program_kind == DEFINITION and not segment.first
            if not pins and _NAMED.search(segment.events) is None:
                continue
            for entry in decode_segment(segment.events, root, segment.first):
                if isinstance(event := entry.event, e.ExecutionStarted) and pins:
                    found.add(event.component_digest)
                elif isinstance(event, e.InvokeScheduled):
                    found.add(digest_of_call(event.function_name) or "")
                else:
                    found.add(code_of(event) or "")
    return found - {""}


async def read_definitions(store: Store, run: Run, digests: Iterable[str]) -> dict[str, bytes]:
    """The canonical bytes of definitions. Raises StoreCorrupt where one is missing or altered."""
    wanted = sorted(digests)
    kept = await store.code(run.key.tenant, [bytes.fromhex(each) for each in wanted]) if wanted else {}
    for digest in wanted:
        code = kept.get(bytes.fromhex(digest))
        if code is None or not code.fits:
            state = "missing" if code is None else "altered"
            raise StoreCorrupt(f"the definition {digest[:12]}… is {state}: restore the database from a backup.")
    return {digest: kept[bytes.fromhex(digest)].data for digest in wanted}
