"""The store's protocol for the audit: its entries, blocks and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.store.governance import AuditEntry, AuditQuery, Block, ChainEnd, Note, Sealing, SigningKey, Span


class AuditPort(Protocol):
    """The audit in a store."""

    async def entries(self, query: AuditQuery, limit: int, after: AuditEntry | None = None) -> list[AuditEntry]:
        """A page of the audit, beginning after ``after``: sealed entries by position, then the others by sequence."""
        ...

    async def last_entries(self, query: AuditQuery, limit: int, before: AuditEntry | None = None) -> list[AuditEntry]:
        """The same list from its end on, newest first: a page of what stands before ``before``."""
        ...

    async def entries_in(self, spans: Sequence[Span], limit: int, after: AuditEntry | None = None) -> list[AuditEntry]:
        """A page of the entries of several runs, sealed or not, by sequence, beginning after ``after``.

        Each run is in ``spans`` only once.
        """
        ...

    async def entries_of_tasks(self, tenant: str, tasks: Sequence[str]) -> list[AuditEntry]:
        """The entries about these tasks of a tenant, sealed or not, by sequence. One that is not readable is left out.

        It reads these alone, however many entries their runs have.
        """
        ...

    async def unsealed(self, limit: int) -> list[AuditEntry]:
        """Entries of all tenants that are not sealed yet, by sequence."""
        ...

    async def blocks(self, tenant: str, first: int, limit: int) -> list[Block]:
        """Blocks from number ``first`` on; a negative ``first`` gives the last ``-first`` blocks. In order."""
        ...

    async def heads(self, tenants: Sequence[str] | None = None) -> list[Block]:
        """The last blocks of these tenants, or of all, without their digests; a tenant without a block has none."""
        ...

    async def holders(self, places: Sequence[tuple[str, int]]) -> list[Block]:
        """The blocks that hold these entries, which are named by tenant and position; by tenant and number."""
        ...

    async def seal(self, sealings: Sequence[Sealing]) -> list[bool]:
        """Append blocks and give their entries their positions, in one transaction; each block is answered by itself.

        The runs that the entries name lose their evidence: it lacks these entries, and must be made again.

        False, and nothing done for that block, where its number is taken, one of its entries is sealed already, or it
        is not signed by the last key.
        """
        ...

    async def signing_keys(self) -> list[SigningKey]:
        """The keys of the audit, in order; the last one signs."""
        ...

    async def add_signing_key(
        self, key: SigningKey, attached: Note | None = None, ends: Sequence[ChainEnd] = ()
    ) -> bool:
        """Add the next key, with the ends of all chains, and an entry of the audit with it.

        False, and nothing done, where its number is taken, or where it has a ``retirement`` and a chain is longer than
        its given end.
        """
        ...

    async def chain_ends(self, number: int) -> list[ChainEnd]:
        """The ends that came with the key of this number."""
        ...
