"""Makes a case that breaks a law smaller, as long as it breaks the same one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from tests.laws.definitions.grow import Case
from tests.laws.definitions.judge import judge, judge_whole

OPTIONAL: Final = ("on", "retry", "timeout", "when", "undo", "as", "needs", "after", "match", "key", "gives", "join")
"""The words that a node can do without."""

Change = Callable[[Any], None]


def law_of(case: Case) -> str | None:
    """The law that a case breaks, or the class of the error that it ends with; None where all is well."""
    try:
        judge(case)
        judge_whole(case)
    except Exception as error:
        return str(error)[:2] if type(error).__name__ == "Broken" else type(error).__name__
    return None


def shrunk(case: Case) -> Case:
    """The smallest case that was found."""
    law, going = law_of(case), True
    while going and law is not None:
        going = False
        for smaller in _smaller(case):
            if law_of(smaller) == law:
                case, going = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for name in case.children:
        yield replace(case, children={each: body for each, body in case.children.items() if each != name})
    for at in range(len(case.signals)):
        yield replace(case, signals=(*case.signals[:at], *case.signals[at + 1 :]))
    documents = {"": case.document, **case.children}
    for name, document in documents.items():
        for number in range(len(list(_cuts(document["steps"])))):
            other = copy.deepcopy(document)
            cut = list(_cuts(other["steps"]))[number]
            cut()
            if name:
                yield replace(case, children={**case.children, name: other})
            else:
                yield replace(case, document=other)


def _cuts(part: Any) -> Iterator[Callable[[], object]]:
    """What can be taken out of a document, outer parts first."""
    if isinstance(part, list):
        for at in range(len(part)):
            yield lambda at=at: part.pop(at)
            body = next(iter(part[at].values())) if isinstance(part[at], dict) else None
            if isinstance(body, dict) and isinstance(body.get("do"), list) and body["do"]:
                yield lambda at=at, body=body: part.__setitem__(slice(at, at + 1), body["do"])
        for each in part:
            yield from _cuts(each)
    elif isinstance(part, dict):
        for word in part:
            if word in OPTIONAL or (isinstance(part[word], dict) and word not in ("with", "undo")):
                yield lambda word=word: part.pop(word)
        for value in part.values():
            yield from _cuts(value)
