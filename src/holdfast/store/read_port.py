"""The store's protocol for reading runs. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.store.rows import Facts, Loaded, Query, Run, RunCount, StepProgress, WorkerRow, Workload
from holdfast.store.values import Code, Cursor, DefinitionRow, Key, Received, Segment, Work


class ReadPort(Protocol):
    """The operations that read. Each sees everything that was committed before it was called."""

    async def get(self, keys: Sequence[Key]) -> list[Run]:
        """The rows of those runs that exist."""
        ...

    async def load(self, keys: Sequence[Key], *, whole: bool = False) -> dict[Key, Loaded]:
        """The journals (of the present generation) and inboxes of those runs, without blobs.

        Of a run with a checkpoint: the checkpoint and the segments after it, unless ``whole`` journals are wanted.
        """
        ...

    async def journals(self, keys: Sequence[Key]) -> dict[Key, list[Segment]]:
        """Only the whole journals (of the present generation) of those runs that exist."""
        ...

    async def messages(self, keys: Sequence[Key]) -> dict[Key, list[Received]]:
        """Only the inboxes."""
        ...

    async def segments(self, key: Key, generation: int, first: int, limit: int) -> list[Segment]:
        """Up to ``limit`` segments of a generation that hold sequences from ``first`` on."""
        ...

    async def blob(self, tenant: str, digest: bytes) -> bytes | None:
        """A blob's bytes."""
        ...

    async def blobs(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """The bytes of those blobs that exist, by digest."""
        ...

    async def code(self, tenant: str, digests: Sequence[bytes]) -> dict[bytes, Code]:
        """The code that a tenant keeps under those digests, where it exists. It is never deleted."""
        ...

    async def definitions(
        self, tenant: str, limit: int, after: DefinitionRow | None = None, *, name: str | None = None
    ) -> list[DefinitionRow]:
        """A page of the definitions that a tenant has published, by name and version, beginning after ``after``.

        With ``name`` only those of that name.
        """
        ...

    async def find(self, query: Query, limit: int, after: Run | Cursor | None = None) -> list[Run]:
        """A page of runs, newest first, beginning after ``after``."""
        ...

    async def counts(self, tenant: str | None = None, most: int | None = None) -> list[RunCount]:
        """How many runs there are by tenant and status, in that order, read from indexes alone.

        With ``most``, the numbers of one tenant are counted no further: one above it means that there are more. That
        takes the same time however many there are.
        """
        ...

    async def owners(self, limit: int) -> list[str]:
        """Up to ``limit`` tenants by name: those that have a run, a user, or an item of the kind ``tenant``.

        It takes as long as so many looks into an index, however many runs and users there are.
        """
        ...

    async def oldest_due(self) -> int | None:
        """Since when the run waits that has waited longest for a worker, or when the next one is to be woken.

        Leased, paused and ended runs wait for none. None where no run is ready or will be by itself.
        """
        ...

    async def work_of(self, key: Key) -> list[tuple[Work, str | None]]:
        """A run's queued work that is not done, each with the worker that leases it."""
        ...

    async def progress_of(self, key: Key) -> list[StepProgress]:
        """The last progress reports of a run's long steps."""
        ...

    async def now(self) -> int:
        """What the store's own clock says."""
        ...

    async def workers(self) -> list[WorkerRow]:
        """The registered workers."""
        ...

    async def workload(self, tenant: str | None = None) -> Workload:
        """What waits for workers just now, of one tenant or of all; it costs as much as there is of that."""
        ...

    async def facts(self) -> Facts:
        """Counts and sizes."""
        ...
