"""A store as one tenant sees it, for reading: of other tenants nothing is there.

So whatever belongs to another tenant is missing in the same way as what does not exist, with the same error, and
without a read that could take longer for what is there. Only what is named here can be called: an operation of the
store that came later is not open to bound clients until somebody has said what of it a tenant may see.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.store import protocol as p


class TenantStore:
    """The reading part of a store, for one tenant."""

    def __init__(self, store: p.Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    def _own(self, keys: Sequence[p.Key]) -> list[p.Key]:
        return [key for key in keys if key.tenant == self._tenant]

    def _is_foreign(self, tenant: str | None) -> bool:
        return tenant is not None and tenant != self._tenant

    # -- runs

    async def get(self, keys: Sequence[p.Key]) -> list[p.Run]:
        return await self._store.get(self._own(keys))

    async def load(self, keys: Sequence[p.Key], *, whole: bool = False) -> dict[p.Key, p.Loaded]:
        return await self._store.load(self._own(keys), whole=whole)

    async def journals(self, keys: Sequence[p.Key]) -> dict[p.Key, list[p.Segment]]:
        return await self._store.journals(self._own(keys))

    async def messages(self, keys: Sequence[p.Key]) -> dict[p.Key, list[p.Received]]:
        return await self._store.messages(self._own(keys))

    async def segments(self, key: p.Key, generation: int, first: int, limit: int) -> list[p.Segment]:
        return [] if self._is_foreign(key.tenant) else await self._store.segments(key, generation, first, limit)

    async def blob(self, tenant: str, digest: bytes) -> bytes | None:
        return None if self._is_foreign(tenant) else await self._store.blob(tenant, digest)

    async def blobs(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return {} if self._is_foreign(tenant) else await self._store.blobs(tenant, digests)

    async def code(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, p.Code]:
        return {} if self._is_foreign(tenant) else await self._store.code(tenant, digests)

    async def definitions(
        self, tenant: str, limit: int, after: p.DefinitionRow | None = None, *, name: str | None = None
    ) -> list[p.DefinitionRow]:
        return [] if self._is_foreign(tenant) else await self._store.definitions(tenant, limit, after, name=name)

    async def find(self, query: p.Query, limit: int, after: p.Run | p.Cursor | None = None) -> list[p.Run]:
        if self._is_foreign(query.tenant):
            return []
        return await self._store.find(replace(query, tenant=self._tenant), limit, after)

    async def counts(self, tenant: str | None = None, most: int | None = None) -> list[p.RunCount]:
        return [] if self._is_foreign(tenant) else await self._store.counts(self._tenant, most)

    async def work_of(self, key: p.Key) -> list[tuple[p.Work, str | None]]:
        return [] if self._is_foreign(key.tenant) else await self._store.work_of(key)

    async def progress_of(self, key: p.Key) -> list[p.StepProgress]:
        return [] if self._is_foreign(key.tenant) else await self._store.progress_of(key)

    async def declined(self, key: p.Key) -> list[p.Declined]:
        return [] if self._is_foreign(key.tenant) else await self._store.declined(key)

    async def cells(self, lane: p.Key, keys: Sequence[bytes]) -> list[p.CellRow]:
        return [] if self._is_foreign(lane.tenant) else await self._store.cells(lane, keys)

    async def held_events(
        self, lane: p.Key, key: bytes, first: int, limit: int, size_bytes: int
    ) -> list[tuple[int, bytes]]:
        if self._is_foreign(lane.tenant):
            return []
        return await self._store.held_events(lane, key, first, limit, size_bytes)

    async def find_cells(self, query: p.CellQuery, limit: int, after: p.CellCursor | None = None) -> list[p.CellRow]:
        return [] if self._is_foreign(query.tenant) else await self._store.find_cells(query, limit, after)

    async def count_cells(self, tenant: str, machine: str) -> dict[str, int]:
        return {} if self._is_foreign(tenant) else await self._store.count_cells(tenant, machine)

    async def dead_letters(self, tenant: str, limit: int, after: tuple[str, int, int] | None = None) -> list[p.DeadRow]:
        return [] if self._is_foreign(tenant) else await self._store.dead_letters(tenant, limit, after)

    async def unrooted(self, lane: p.Key, since: int) -> p.Unrooted | None:
        return None if self._is_foreign(lane.tenant) else await self._store.unrooted(lane, since)

    async def roots(self, lane: p.Key, limit: int, at: int | None = None) -> list[p.RootRow]:
        return [] if self._is_foreign(lane.tenant) else await self._store.roots(lane, limit, at)

    async def cell_nodes(self, lane: p.Key, names: Sequence[bytes]) -> dict[bytes, bytes]:
        return {} if self._is_foreign(lane.tenant) else await self._store.cell_nodes(lane, names)

    async def now(self) -> int:
        return await self._store.now()

    async def workers(self) -> list[p.WorkerRow]:
        """The workers serve all tenants, and what they serve is no tenant's secret."""
        return await self._store.workers()

    async def workload(self, tenant: str | None = None) -> p.Workload:
        """Its own part; how large the whole store is would tell of the others."""
        own = self._tenant if not self._is_foreign(tenant) else ""
        return replace(await self._store.workload(own), size_bytes=None)

    # -- the gate

    async def governed(self, keys: Sequence[p.Key]) -> dict[p.Key, p.Governed]:
        return await self._store.governed(self._own(keys))

    async def receipt(self, tenant: str, id: str) -> p.ReceiptRow | None:
        return None if self._is_foreign(tenant) else await self._store.receipt(tenant, id)

    async def stakes(self, tenant: str, receipt: str) -> p.Stakes:
        return p.Stakes() if self._is_foreign(tenant) else await self._store.stakes(tenant, receipt)

    async def acts_of(self, tenant: str, callers: Sequence[p.ActCaller]) -> list[p.ReceiptRow | None]:
        return [None for _ in callers] if self._is_foreign(tenant) else await self._store.acts_of(tenant, callers)

    async def receipts_by_id(self, tenant: str, ids: Sequence[str]) -> dict[str, p.ReceiptRow]:
        return {} if self._is_foreign(tenant) else await self._store.receipts_by_id(tenant, ids)

    async def receipt_of_key(self, tenant: str, key: str) -> p.ReceiptRow | None:
        return None if self._is_foreign(tenant) else await self._store.receipt_of_key(tenant, key)

    async def receipts(
        self, query: p.ReceiptQuery, limit: int, after: p.ReceiptRow | p.Cursor | None = None
    ) -> list[p.ReceiptRow]:
        if self._is_foreign(query.tenant):
            return []
        return await self._store.receipts(replace(query, tenant=self._tenant), limit, after)

    async def task(self, tenant: str, id: str) -> p.TaskRow | None:
        return None if self._is_foreign(tenant) else await self._store.task(tenant, id)

    async def tasks_by_id(self, tenant: str, ids: Sequence[str]) -> dict[str, p.TaskRow]:
        return {} if self._is_foreign(tenant) else await self._store.tasks_by_id(tenant, ids)

    async def tasks(self, query: p.TaskQuery, limit: int, after: p.TaskRow | p.Cursor | None = None) -> list[p.TaskRow]:
        if self._is_foreign(query.tenant):
            return []
        return await self._store.tasks(replace(query, tenant=self._tenant), limit, after)

    async def files(self, key: p.Key) -> list[p.KeptFile]:
        return [] if self._is_foreign(key.tenant) else await self._store.files(key)

    async def file(self, key: p.Key, generation: int, name: str) -> bytes | None:
        return None if self._is_foreign(key.tenant) else await self._store.file(key, generation, name)

    async def file_part(self, key: p.Key, generation: int, name: str, at: int, size: int) -> bytes | None:
        return None if self._is_foreign(key.tenant) else await self._store.file_part(key, generation, name, at, size)

    async def kept_evidence(self, keys: Sequence[p.Key], largest: int) -> list[p.File]:
        return await self._store.kept_evidence(self._own(keys), largest)

    async def misfiled(self, tenant: str) -> str | None:
        return None if self._is_foreign(tenant) else await self._store.misfiled(tenant)

    # -- the audit

    async def entries(self, query: p.AuditQuery, limit: int, after: p.AuditEntry | None = None) -> list[p.AuditEntry]:
        return [] if self._is_foreign(query.tenant) else await self._store.entries(query, limit, after)

    async def last_entries(
        self, query: p.AuditQuery, limit: int, before: p.AuditEntry | None = None
    ) -> list[p.AuditEntry]:
        return [] if self._is_foreign(query.tenant) else await self._store.last_entries(query, limit, before)

    async def entries_in(
        self, spans: Sequence[p.Span], limit: int, after: p.AuditEntry | None = None
    ) -> list[p.AuditEntry]:
        own = [span for span in spans if span.key.tenant == self._tenant]
        return await self._store.entries_in(own, limit, after) if own else []

    async def entries_of_tasks(self, tenant: str, tasks: Sequence[str]) -> list[p.AuditEntry]:
        return [] if self._is_foreign(tenant) else await self._store.entries_of_tasks(tenant, tasks)

    async def blocks(self, tenant: str, first: int, limit: int) -> list[p.Block]:
        return [] if self._is_foreign(tenant) else await self._store.blocks(tenant, first, limit)

    async def heads(self, tenants: Sequence[str] | None = None) -> list[p.Block]:
        return await self._store.heads([self._tenant]) if tenants is None or self._tenant in tenants else []

    async def holders(self, places: Sequence[tuple[str, int]]) -> list[p.Block]:
        return await self._store.holders([place for place in places if place[0] == self._tenant])

    async def chain_ends(self, number: int) -> list[p.ChainEnd]:
        """A key signed all of them together, so no chain can be checked without the others. Nothing shows them."""
        return await self._store.chain_ends(number)

    # -- items

    async def item(self, key: p.ItemKey) -> p.ItemRow | None:
        return None if self._is_foreign(key.tenant) else await self._store.item(key)

    async def items(
        self,
        kind: str,
        limit: int,
        *,
        tenant: str | None = None,
        id: str | None = None,
        status: str | None = None,
        after: p.ItemKey | None = None,
    ) -> list[p.ItemRow]:
        if self._is_foreign(tenant):
            return []
        return await self._store.items(kind, limit, tenant=self._tenant, id=id, status=status, after=after)
