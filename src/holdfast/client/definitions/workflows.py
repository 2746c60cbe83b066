"""The workflows that definitions run: those that are published, those that are to be, and functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from holdfast.errors import DuplicateName
from holdfast.programs.definition.compiler.batch import NamesBut
from holdfast.programs.definition.model import Accepted
from holdfast.programs.definition.versions import latest, parse_reference


class PublishedName(NamedTuple):
    """A published definition: what its name and version mean, in hex."""

    name: str
    version: int
    digest: str


def names_or_any(names: Sequence[str] | None) -> Collection[str]:
    """These names; all names if there are none given."""
    return AnyName() if names is None else frozenset(names)


class AnyName(Collection[str]):
    """All names: where it is not known which functions there are, any may be one."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class PublishedWorkflows:
    """What definitions run that are to be published: others that are published, or are with them; and functions.

    A published one whose code is needed and not there yet is ``lacking``: read it, and compile again.
    """

    def __init__(self, published: Iterable[PublishedName], functions: Collection[str]) -> None:
        self._functions = functions
        self._published: dict[str, dict[int, str]] = {}
        self._read: dict[str, Accepted] = {}  # by digest
        self._new: dict[tuple[str, int], Accepted] = {}
        self._lacking: dict[str, None] = {}
        for name, version, digest in published:
            self._published.setdefault(name, {})[version] = digest

    @property
    def lacking(self) -> list[str]:
        """Digests."""
        return list(self._lacking)

    def read(self, accepted: Iterable[Accepted]) -> None:
        """The code that was lacking. Everything is compiled again."""
        self._read.update({each.digest: each for each in accepted})
        self._lacking.clear()
        self._new.clear()

    def learn(self, accepted: Accepted) -> None:
        """One more that is to be published. Raises DuplicateName where its name and version mean another."""
        definition = accepted.definition
        place = definition.name, definition.version
        other = self._new.get(place)
        known = self._published.get(place[0], {}).get(place[1]) if other is None else other.digest
        if known not in (None, accepted.digest):
            raise taken(accepted, known or "")
        self._new[place] = accepted

    def definition(self, reference: str) -> Accepted | None:
        name, wanted = parse_reference(reference)
        versions = self._published.get(name, {})
        version = latest([*versions, *(number for known, number in self._new if known == name)], wanted)
        if version is None or (name, version) in self._new:
            return self._new.get((name, version or 0))
        found = self._read.get(versions[version])
        if found is None:
            self._lacking[versions[version]] = None
        return found

    def function_names(self) -> Collection[str]:
        return NamesBut(self._functions, self.definition_names())

    def definition_names(self) -> Collection[str]:
        return {*self._published, *(name for name, _ in self._new)}


def taken(accepted: Accepted, digest: str) -> DuplicateName:
    """The name and version of a definition mean another."""
    definition = accepted.definition
    return DuplicateName(
        f"{definition.name} version {definition.version} is published with other content (digest {digest[:12]}, and "
        f"this one is {accepted.digest[:12]}): give the changed one a new version"
    )
