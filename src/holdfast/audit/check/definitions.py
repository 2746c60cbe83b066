"""Checks the definitions in a bundle: each is the one that a journal names, and none that a journal pins is missing.

The digest that a run was started with is bound three times: it is a part of the run's root, it stands in the outline of
its start, and the entry of its end names it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from holdfast.audit import evidence, records
from holdfast.audit.check.claims import Findings
from holdfast.audit.facts import RunLine
from holdfast.audit.outline import JournalLine
from holdfast.journal.events import REVISION
from holdfast.journal.promise import PromiseId
from holdfast.runs.birth import idempotency_key
from holdfast.runs.program_names import DEFINITION, digest_of_call
from holdfast.store.values import Key

STARTED = "ExecutionStarted"


def check_definitions(
    facts: RunLine,
    journals: Sequence[JournalLine],
    recorded: Sequence[tuple[int, records.Record]],
    files: Mapping[str, bytes],
    findings: Findings,
) -> None:
    """Check all definitions of a bundle. One without definitions gets no claim."""
    found = {name for name in files if name.startswith(evidence.DEFINITIONS)}
    pinned = {code for journal in journals if (code := _code(journal)) is not None}
    # A journal that does not name its own code was outlined by an earlier version, which added no definitions.
    events = [event for journal in journals if _code(journal) is not None for event in journal.events]
    called = {digest for event in events if (digest := _called(event.name)) is not None}
    called |= {event.code for event in events if event.name == REVISION and event.code}
    problems = [
        f"file {name} is not the definition of that digest." for name in sorted(found) if not _fits(name, files)
    ]
    if facts.program_kind == DEFINITION:
        if not pinned:
            problems.append("the journal does not say which definition the run was started with.")
        called |= pinned
        for journal in journals:
            problems += _unbound(facts, journal, recorded)
    named = {evidence.definition_file(digest) for digest in called}
    problems += [f"file {name} is missing: the journal names that definition." for name in sorted(named - found)]
    problems += [f"file {name} is a definition that no journal names." for name in sorted(found - named)]
    for problem in problems:
        findings.broken("definitions", problem)
    if found and not problems:
        findings.proved("definitions", f"all definitions ({len(found)}) are those that the journal names by digest.")


def _code(journal: JournalLine) -> str | None:
    """The digest that a generation was started with."""
    return next((event.code for event in journal.events if event.event == STARTED), None)


def _called(name: str | None) -> str | None:
    return None if name is None else digest_of_call(name)


def _fits(name: str, files: Mapping[str, bytes]) -> bool:
    return name == evidence.definition_file(hashlib.sha256(files[name]).hexdigest())


def _unbound(facts: RunLine, journal: JournalLine, recorded: Sequence[tuple[int, records.Record]]) -> list[str]:
    """What binds a generation to another definition than the one that its journal pins."""
    code, number = _code(journal), journal.generation
    name = f"the definition of generation {number}"
    problems = [
        f"{name} is not the one that entry {at} names, with which it ended."
        for at, end in recorded
        if isinstance(end, records.Ended) and end.generation == number and end.code != code
    ]
    if facts.parent is None and not _follows(facts, journal, code or ""):
        problems.append(f"{name} is not the one that the root of its journal follows from.")
    return problems


def _follows(facts: RunLine, journal: JournalLine, code: str) -> bool:
    """Whether the root of a run without a parent follows from the digest, in one of the lineages that it may have."""
    key = Key(facts.tenant, facts.id)
    keys = [idempotency_key(key, lineage) for lineage in range(journal.generation + 1)]
    return any(PromiseId.of_run(code, None, each).root.hex() == journal.root for each in keys)
