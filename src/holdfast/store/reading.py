"""What a store is asked about runs. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.store.rows import Facts, Loaded, Progress, Query, Run, RunCount, WorkerRow
from holdfast.store.values import Code, Cursor, Key, Received, Segment, Work


class ReadPort(Protocol):
    """Reading. Every operation sees what was committed before it was asked."""

    async def get(self, keys: Sequence[Key]) -> list[Run]:
        """The rows of those runs that exist."""
        ...

    async def load(self, keys: Sequence[Key], *, whole: bool = False) -> dict[Key, Loaded]:
        """The journals (of the present generation) and inboxes of those runs, with the blobs that they name. Of a run
        that has a checkpoint, that and the segments behind it, unless the ``whole`` journals are asked for."""
        ...

    async def journals(self, keys: Sequence[Key]) -> dict[Key, list[Segment]]:
        """The whole journals (of the present generation) alone; of runs that are not there, nothing."""
        ...

    async def messages(self, keys: Sequence[Key]) -> dict[Key, list[Received]]:
        """The inboxes alone."""
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
        """The code that a tenant keeps under those digests, as far as there is any. Nothing ever deletes it."""
        ...

    async def find(self, query: Query, limit: int, after: Run | Cursor | None = None) -> list[Run]:
        """A page of runs, newest first, beginning behind ``after``."""
        ...

    async def counts(self, tenant: str | None = None) -> list[RunCount]:
        """How many runs there are by tenant and status, in that order; fast, however many there are."""
        ...

    async def work_of(self, key: Key) -> list[tuple[Work, str | None]]:
        """A run's queued work that is not done, and which worker leases each."""
        ...

    async def progress_of(self, key: Key) -> list[Progress]:
        """What a run's long steps last said."""
        ...

    async def workers(self) -> list[WorkerRow]:
        """The registered workers."""
        ...

    async def facts(self) -> Facts:
        """Counts and sizes."""
        ...
