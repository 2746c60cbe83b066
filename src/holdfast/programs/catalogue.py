"""The catalogue: the programs that a worker can run, by kind, name and digest.

A run is rebuilt by the program that its journal pinned. Each kind of programs brings a ``ProgramKind``, which lists its
programs and makes them, so no other part needs to know the kinds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol, TypeVar

from holdfast.errors import StoreCorrupt, WorkflowUnknown
from holdfast.kernel.program import Program
from holdfast.runs.birth import Pin
from holdfast.store.protocol import FUNCTION, MACHINE, Code, Serves

K = TypeVar("K")


class ProgramKind(Protocol):
    """One kind of programs."""

    @property
    def kind(self) -> str:
        """Its name in the rows of its runs."""
        ...

    def names(self) -> Collection[str]:
        """The programs that are known by name. Programs whose code the store keeps are not among them."""
        ...

    def pin(self, name: str) -> Pin | None:
        """The code that a new run of that name is started with; None where the name is unknown here."""
        ...

    def program(self, name: str, digest: str, code: Code | None) -> Program:
        """A fresh program for one run, by the name and digest that its journal pinned. ``code`` is from the store.

        Raises WorkflowUnknown where there is no such program.
        """
        ...


class Catalogue:
    """All programs of this process. Code that was read from the store is kept by tenant and digest."""

    def __init__(self, kinds: Iterable[ProgramKind]) -> None:
        self._kinds = {kind.kind: kind for kind in kinds}
        self._code: dict[tuple[str, bytes], Code] = {}

    def add(self, kind: ProgramKind) -> None:
        """Serve one more kind of programs, from now on."""
        self._kinds[kind.kind] = kind

    def kind(self, name: str, kind: type[K]) -> K | None:
        """One kind of programs, by its name; None where it is not served."""
        found = self._kinds.get(name)
        return found if isinstance(found, kind) else None

    def serves(self) -> Serves:
        """The programs whose runs a worker may claim: functions by name, and the other kinds. The code of machines is
        in no store: where there are none, their lanes are other workers'."""
        functions = self._kinds.get(FUNCTION)
        names = () if functions is None else tuple(functions.names())
        others = (kind for kind in self._kinds.values() if kind.kind != FUNCTION)
        return Serves(names, tuple(each.kind for each in others if each.kind != MACHINE or each.names()))

    def knows(self, kind: str, name: str) -> bool:
        """Whether a run of that program can be executed here."""
        found = self._kinds.get(kind)
        return found is not None and (kind != FUNCTION or name in found.names())

    def pin(self, name: str) -> Pin:
        """The code that a new run of that name is started with. An unknown name is the function of another worker."""
        pins = (kind.pin(name) for kind in self._kinds.values())
        return next((pin for pin in pins if pin is not None), _UNPINNED)

    def lacks(self, tenant: str, digest: bytes | None) -> bool:
        """Whether code of that digest must still be read from the store."""
        return digest is not None and (tenant, digest) not in self._code

    def learn(self, tenant: str, code: Iterable[Code]) -> None:
        """Remember code that the store keeps."""
        self._code.update({(tenant, each.digest): each for each in code})

    def program(self, kind: str, name: str, digest: str, tenant: str = "", code_digest: bytes | None = None) -> Program:
        """A fresh program for one run. Raises WorkflowUnknown, and StoreCorrupt where its code is not kept."""
        programs = self._kinds.get(kind)
        if programs is None:
            raise WorkflowUnknown(f"no programs of kind {kind!r} are served here: start a worker that serves them.")
        code = None if code_digest is None else self._code.get((tenant, code_digest))
        if code_digest is not None and code is None:
            missing = f"the code {code_digest.hex()} of {kind} {name!r} is not in the store"
            raise StoreCorrupt(f"{missing}: put it there again, then resume the run.")
        return programs.program(name, digest, code)


_UNPINNED = Pin()
