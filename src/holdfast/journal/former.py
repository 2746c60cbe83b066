"""The calls that a run made before it was retried, as the start of its next generation carries them.

A retry drops the journal after its cut. What was called there is carried by content, not by position, because mended
code may call it elsewhere: a call meets the first one of equal kind, name and input that no call has met.

- A call with an ``outcome`` has succeeded and was not undone, or has failed and the body went on: its outcome counts.
- A call without one is done again. One that made the run fail, or never ended, may have been done: it is the same act,
  tried once more, and keeps its ``key``. One that was undone has no key: it is another act.
- A call that undoes another is met by the same undo of the same call, which was tried in vain.
- A timer is a call of the kind ``timer``, with its duration as the input. It has an outcome if it has fired.

``used`` has the highest number that a key has at each position, in all generations: a new act gets a higher one.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import cbor2
import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.journal.cbor import canonical
from holdfast.journal.forms import FORM
from holdfast.journal.payload import Err, Failure, Ok, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.render import whole_arguments

TIMER: Final = "timer"
LONGEST_SHOWN: Final = 1_000


class FormerCall(msgspec.Struct, frozen=True, array_like=True):
    """One call of an earlier generation. ``key`` is the position in its key, and its number there; ``order`` is when it
    ended, ``shown`` its input as people may see it."""

    kind: str
    name: str
    input: bytes
    key: tuple[int, int] | None
    order: int
    shown: str = ""
    value: tuple[str, bytes] | None = None
    failure: list[str] | None = None

    @property
    def outcome(self) -> Outcome | None:
        """What it came to; None if it is to be done again."""
        if self.value is not None:
            return Ok(Payload(self.value[1], self.value[0]))
        return None if self.failure is None else Err(Failure(*self.failure))

    @property
    def is_kept(self) -> bool:
        """Whether it has done something that stands."""
        return self.value is not None and self.kind != TIMER


class Former(msgspec.Struct, frozen=True, array_like=True):
    """All of them, in the order in which they were made. Calls at positions before ``since`` are in the journal.

    ``children`` are the positions that runs of children are named after, in all generations. ``secrets`` are those of
    the actions: no message about another call may quote one.
    """

    since: int
    calls: list[FormerCall]
    used: list[tuple[int, int]]
    children: list[int] = []
    secrets: list[Any] = []


def digest_of_input(kind: str, input: Payload) -> bytes:
    """By which inputs are compared. Newer code may ask a form with other terms, see ``forms``."""
    if input.blob is not None:
        return input.blob
    data = canonical(cbor2.loads(input.data)[0]) if kind == FORM else input.data
    return hashlib.sha256(data).digest()


def content_of(kind: str, name: str, input: Payload, undoes: PromiseId | None) -> tuple[str, str, bytes]:
    """By which a call meets a former one: its kind, its name and its input."""
    digest = digest_of_input(kind, input)
    if undoes is None:
        return kind, name, digest
    undone = canonical([digest, undoes.root, list(undoes.path)])
    return f"undo {kind}", name, hashlib.sha256(undone).digest()


def shown_input(input: Payload) -> str:
    """A call's input for people, where the call itself marks its secrets. It is not cut: a part of another secret in it
    could not be recognised and masked any more."""
    return whole_arguments(input) if len(input.data) <= LONGEST_SHOWN else f"<{len(input.data)} bytes>"


def write_former(former: Former) -> Payload:
    return Payload(canonical(msgspec.to_builtins(former, builtin_types=(bytes,))))


def read_former(payload: Payload) -> Former:
    """Raises StoreCorrupt if it cannot be read."""
    if payload.blob is not None:
        raise StoreCorrupt("the calls of earlier generations are not at hand: restore the database from a backup.")
    try:
        return msgspec.convert(cbor2.loads(payload.data), Former)
    except (cbor2.CBORError, msgspec.ValidationError, ValueError, TypeError, RecursionError) as error:
        raise StoreCorrupt(
            f"the calls of earlier generations are damaged ({error}): restore the database from a backup."
        ) from error


class Answers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person says about kept results: do the calls of these names ``again``, ``keep`` their results whatever
    their new input, or treat every kept result as not there (``new``). Of names in ``others`` only the calls that no
    kept result has the input of are done: the answer to a run that is parked for such a call."""

    again: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    new: bool = False
    others: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.again or self.keep or self.new or self.others)

    def joined(self, later: Answers) -> Answers:
        """These, and later ones, which win."""
        said = {*later.again, *later.keep, *later.others}
        again, keep, others = (
            (*(name for name in mine if name not in said), *theirs)
            for mine, theirs in ((self.again, later.again), (self.keep, later.keep), (self.others, later.others))
        )
        return Answers(again, keep, self.new or later.new, others)


UNSAID: Final = Answers()


def write_answers(answers: Answers) -> Payload:
    return Payload(canonical(msgspec.to_builtins(answers)))


def read_answers(payload: Payload) -> Answers:
    return msgspec.convert(cbor2.loads(payload.data), Answers)
