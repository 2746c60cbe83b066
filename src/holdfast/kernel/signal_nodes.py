"""The blobs that carried signals are kept in, see ``carried_signals``: what each of them is, and what it refers to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import cbor2
import msgspec

from holdfast.cells.nodes import parse
from holdfast.errors import StoreCorrupt
from holdfast.journal.codec import PayloadField
from holdfast.journal.payload import SIGNALS, Payload

T = TypeVar("T")


class SignalPiece(NamedTuple):
    """A part of a queue: its blob, how many signals it has, and its level."""

    blob: bytes
    size: int
    level: int


class QueueEntry(NamedTuple):
    """What the tree has of a name: its number of signals, how many are taken of its queue, and this or its blob."""

    name: str
    size: int
    taken: int
    queue: bytes | tuple[list[SignalPiece], list[PayloadField]]


class QueueNode(msgspec.Struct, array_like=True, tag=2):  # the tree's own nodes are tagged 0 and 1
    pieces: list[SignalPiece]
    latest: list[PayloadField]


class PiecesNode(msgspec.Struct, array_like=True, tag=3):
    pieces: list[SignalPiece]


class SignalsNode(msgspec.Struct, array_like=True, tag=4):
    signals: list[PayloadField]


class CarriedRoot(msgspec.Struct, array_like=True):
    size: int
    root: bytes


def size_and_root(payload: Payload) -> tuple[int, bytes]:
    """How many signals a start carries, and the root of their tree. Raises StoreCorrupt."""
    if payload.codec != SIGNALS:
        raise damaged("they are in a form that a newer Holdfast wrote")
    carried = read_node(payload.data, CarriedRoot)
    return carried.size, carried.root


def read_node(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.convert(cbor2.loads(data), kind)
    except (cbor2.CBORError, msgspec.ValidationError, ValueError, TypeError) as error:
        raise damaged(f"they cannot be read ({error})") from error


def damaged(why: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"the signals that a run carries from earlier generations are damaged: {why}. Restore the database from a "
        "backup."
    )


class Below(NamedTuple):
    """The blobs that a node refers to: further nodes, and large payloads, which refer to nothing."""

    nodes: list[bytes]
    payloads: list[bytes]


def below(node: bytes) -> Below:
    """The blobs that a node refers to. Raises StoreCorrupt."""
    kind = node[1:2]  # of a list with less than 24 items; any longer one is a node of the tree
    if kind == b"\x02":
        queue = read_node(node, QueueNode)
        return Below([piece.blob for piece in queue.pieces], _large(queue.latest))
    if kind == b"\x03":
        return Below([piece.blob for piece in read_node(node, PiecesNode).pieces], [])
    if kind == b"\x04":
        return Below([], _large(read_node(node, SignalsNode).signals))
    try:
        found = parse(node)
    except ValueError as error:
        raise damaged(str(error)) from error
    if isinstance(found, list):
        return Below([child.name for child in found if child is not None], [])
    every = Below([], [])
    for data in found.values():
        written = read_node(data, QueueEntry).queue
        if isinstance(written, bytes):
            every.nodes.append(written)
        else:
            every.nodes.extend(piece.blob for piece in written[0])
            every.payloads.extend(_large(written[1]))
    return every


def _large(fields: Iterable[PayloadField]) -> list[bytes]:
    return [field[2] for field in fields if not isinstance(field, bytes) and field[2] is not None]


def at_hand(payload: Payload, nodes: Mapping[bytes, bytes]) -> tuple[dict[bytes, bytes], Below]:
    """Of the blobs that belong to what a start carries, those that there are, and those that are not there of which
    these tell."""
    found: dict[bytes, bytes] = {}
    missing = Below([], [])
    seen: set[bytes] = set()
    waiting = [size_and_root(payload)[1]]
    while waiting:
        refers = below(waiting.pop())
        for blobs, lacking in zip(refers, missing, strict=True):
            for blob in blobs:
                if blob in seen:
                    continue
                seen.add(blob)
                if blob not in nodes:
                    lacking.append(blob)
                    continue
                found[blob] = nodes[blob]
                if lacking is missing.nodes:
                    waiting.append(nodes[blob])
    return found, missing
