"""The heads of chains, to be kept outside the store: a kept head shows whether its chain was cut off or rewritten.

A file of heads has a line of JSON for each tenant: its last block without its digests, with hashes and signature in
hexadecimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.store.governance import Block

FORMAT: Final = "holdfast.audit.head.1"


class HeadLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A tenant's last block."""

    format: str
    tenant: str
    number: int
    first: int
    count: int
    previous: str
    head: str
    sealed_at: int
    signer: str
    signature: str
    form: int


def write(blocks: Sequence[Block]) -> bytes:
    """The file of these heads."""
    return b"".join(msgspec.json.encode(_line(block)) + b"\n" for block in blocks)


def read(data: bytes) -> list[Block]:
    """The heads in a file. Raises InvalidRequest."""
    try:
        lines = [msgspec.json.decode(line, type=HeadLine) for line in data.splitlines() if line.strip()]
        blocks = [_block(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"a head cannot be read: {error}. `holdfast audit head` writes them.") from error
    other = next((line.format for line in lines if line.format != FORMAT), None)
    if other is not None or not blocks:
        problem = "there is no head in it" if other is None else f"a head is of format {other!r}, not {FORMAT}"
        raise InvalidRequest(f"{problem}. `holdfast audit head` writes them.")
    return blocks


def _line(block: Block) -> HeadLine:
    return HeadLine(
        FORMAT,
        block.tenant,
        block.number,
        block.first,
        block.count,
        block.previous.hex(),
        block.head.hex(),
        block.sealed_at,
        block.signer,
        block.signature.hex(),
        block.form,
    )


def _block(line: HeadLine) -> Block:
    hashes = (bytes.fromhex(line.previous), bytes.fromhex(line.head), b"")
    place = (line.tenant, line.number, line.first, line.count)
    return Block(*place, *hashes, line.sealed_at, line.signer, bytes.fromhex(line.signature), line.form)


class KeptHeads:
    """Heads of one tenant that were kept outside the store, compared with its chain block by block."""

    def __init__(self, kept: Sequence[Block]) -> None:
        self.problem: str | None = None
        self._unseen = {block.number: block for block in kept}
        self._last = max(self._unseen, default=0)
        self._after = 0

    def __bool__(self) -> bool:
        return bool(self._last)

    def step(self, block: Block) -> None:
        """Take the next block of the chain."""
        kept = self._unseen.pop(block.number, None)
        if kept is not None and msgspec.structs.replace(block, digests=b"") != kept and self.problem is None:
            self.problem = f"block {block.number} is not the one whose head was kept: the chain was rewritten since."
        self._after += block.number > self._last

    def end(self, reached: int) -> None:
        """Take the end of the chain: the number of its last block."""
        if self.problem is None and self._unseen:
            self.problem = (
                f"the chain ends with block {reached}, and the head of block {self._last} was kept: its end was cut "
                "off, or the store was reset to an earlier state."
            )

    @property
    def text(self) -> str:
        """The claim where there is no problem."""
        return f"the chain holds block {self._last}, whose head was kept, and {self._after} blocks follow it."
