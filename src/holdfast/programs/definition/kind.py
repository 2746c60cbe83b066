"""Definitions in the catalogue: found by the digest that a run's journal pins, made of the code that the store keeps.

Those that this process has accepted are also known by name and version, so that new runs can be started of them. A
name and a version mean one definition: what is accepted is never changed, it gets a new version.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from holdfast.errors import DuplicateName, WorkflowUnknown
from holdfast.kernel.program import Program
from holdfast.programs.definition.compiler.batch import RejectedSource
from holdfast.programs.definition.compiler.compiler import load
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine, Toolbox
from holdfast.programs.definition.model import Accepted, ContinueVerb, RunVerb
from holdfast.programs.definition.versions import latest, parse_reference
from holdfast.programs.definition.walks import all_nodes
from holdfast.runs.birth import Pin
from holdfast.runs.program_names import DEFINITION, definition_name
from holdfast.store.protocol import Code

CACHED: Final = 256
"""How many definitions are kept ready to run. Others are compiled again when a run of theirs is taken up."""


class Definitions:
    """The kind of programs that definitions are."""

    kind = DEFINITION

    def __init__(self, tools: Toolbox) -> None:
        self.tools = tools
        self.unavailable: list[RejectedSource] = []  # what this process was given and could not accept
        self._accepted: dict[str, dict[int, Accepted]] = {}
        self._routines: OrderedDict[str, Routine] = OrderedDict()
        self._reachable: dict[str, tuple[Code, ...]] = {}

    def add(self, accepted: Accepted) -> None:
        """Make a definition known by name and version. Raises DuplicateName where that means another."""
        definition = accepted.definition
        versions = self._accepted.setdefault(definition.name, {})
        known = versions.get(definition.version)
        if known is not None and known.digest != accepted.digest:
            raise DuplicateName(
                f"{definition.name} version {definition.version} is another definition already (digest "
                f"{known.digest[:12]}, and this one is {accepted.digest[:12]}): give the changed one a new version"
            )
        versions[definition.version] = accepted
        self._reachable.clear()

    def find(self, reference: str) -> Accepted | None:
        """The newest definition that ``name``, ``name@3`` or ``name@^2`` means; None where there is none."""
        name, wanted = parse_reference(reference)
        versions = self._accepted.get(name, {})
        found = latest(versions, wanted)
        return None if found is None else versions[found]

    def reachable(self, accepted: Accepted) -> list[Accepted]:
        """The definition, and those that its runs may start, directly or not."""
        found = {accepted.digest: accepted}
        waiting = [accepted]
        while waiting:
            for node in all_nodes(waiting.pop().definition.steps):
                verb = node.verb
                if isinstance(verb, RunVerb | ContinueVerb) and verb.digest and verb.digest not in found:
                    other = self.find(f"{verb.workflow}@{verb.version}")
                    if other is not None and other.digest == verb.digest:
                        found[verb.digest] = other
                        waiting.append(other)
        return list(found.values())

    def __iter__(self) -> Iterator[Accepted]:
        for versions in self._accepted.values():
            yield from (versions[version] for version in sorted(versions))

    def names(self) -> Collection[str]:
        return ()

    def pin(self, name: str) -> Pin | None:
        reference, _, digest = name.partition("#")
        found = self.find(reference)
        if found is None or (digest and found.digest != digest):
            return None
        return msgspec.structs.replace(pin_of(found), keep=self._code(found))

    def _code(self, accepted: Accepted) -> tuple[Code, ...]:
        """The code of a definition, and of all that its runs may start."""
        known = self._reachable.get(accepted.digest)
        if known is None:
            known = self._reachable[accepted.digest] = tuple(map(code_of, self.reachable(accepted)))
        return known

    def called(self, reference: str) -> str | None:
        """The name by which a call starts the definition that a reference means; None where it means none here."""
        found = self.find(reference)
        if found is None:
            return None
        return definition_name(found.definition.name, found.definition.version, found.digest)

    def program(self, name: str, digest: str, code: Code | None) -> Program:
        if code is None:
            raise WorkflowUnknown(f"the definition of {name!r} with the digest {digest} is not in the store.")
        return DefinitionProgram(self.routine(code.data, digest), self.routine)

    def routine(self, data: bytes, digest: str) -> Routine:
        """The definition of these canonical bytes, ready to run."""
        found = self._routines.get(digest)
        if found is None:
            found = self._routines[digest] = Routine(load(data), digest, self.tools)
            if len(self._routines) > CACHED:
                self._routines.popitem(last=False)
        return found


def pin_of(accepted: Accepted) -> Pin:
    """Which code a new run of a definition is started with."""
    return Pin(DEFINITION, accepted.digest, bytes.fromhex(accepted.digest))


def code_of(accepted: Accepted) -> Code:
    """A definition as the store keeps it."""
    return Code(bytes.fromhex(accepted.digest), DEFINITION, accepted.definition.name, accepted.canonical)
