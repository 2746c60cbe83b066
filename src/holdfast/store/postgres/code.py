"""The code of programs, kept by its digest."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.store.postgres.writer import Writer


async def keep(writer: Writer, changes: Sequence[p.KeepCode]) -> list[p.Answer]:
    kept = {(change.tenant, change.code.digest): change.code for change in changes if change.code.fits}
    rows = [(tenant, code.digest, code.kind, code.name, code.data) for (tenant, _), code in sorted(kept.items())]
    await writer.fetch_columns("keep_code", rows, width=5)
    return [p.Kept() if change.code.fits else p.CodeMisfit() for change in changes]
