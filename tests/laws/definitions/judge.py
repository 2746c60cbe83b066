"""Plays a case on both sides and compares what they did."""

from __future__ import annotations

from typing import Any

from tests.laws.definitions.grow import Case
from tests.laws.definitions.outside import Outside
from tests.laws.definitions.reference import Ending, played
from tests.laws.definitions.whole import Whole, bounded
from tests.laws.definitions.world import Broken, World


def judge(case: Case, world: World | None = None) -> Ending:
    """How the case ends. Raises Broken where a law is."""
    world = world or World(case)  # first: it compiles the definitions, and the reference believes them
    wanted, outside = played(case)
    found = world.play()
    _compare_all(wanted, found, outside, world.outside)
    world.cancel_parked()
    return wanted


def judge_whole(case: Case) -> Ending:
    """How the case ends on a whole engine. Raises Broken where a law is."""
    case = bounded(case)
    whole = Whole(case)
    wanted, outside = played(case)
    found = whole.play()
    if whole.has_parked_child:  # it may be cancelled while it is parked; the reference leaves it as it is
        if found.how == "stuck":
            raise Broken("D7: the run waits for ever for a child that is parked")
    else:
        _compare_all(wanted, found, outside, whole.played)
    return wanted


def _compare_all(wanted: Ending, found: Ending, outside: Outside, real: Outside) -> None:
    _compare("D3", sorted(outside.log), sorted(real.log))
    _compare("D1", (wanted.how, wanted.what), (found.how, found.what))
    if wanted.how not in ("parked", "stuck"):
        _compare("D2", _plain(wanted.state), _plain(found.state))
        _compare("D2", _text(wanted.reference), found.reference)


def _text(reference: Any) -> str | None:
    return None if reference is None else str(reference)


def _plain(value: Any) -> Any:
    """Kept errors by their class and code alone."""
    if isinstance(value, dict):
        if value.keys() == {"error"}:
            return {"error": {name: value["error"][name] for name in ("class", "code")}}
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _compare(law: str, wanted: Any, found: Any) -> None:
    if wanted == found:
        return
    if isinstance(wanted, list) and isinstance(found, list):
        missing = [each for each in wanted if each not in found][:3]
        more = [each for each in found if each not in wanted][:3]
        raise Broken(f"{law}: the engine lacks {missing} and has {more}")
    raise Broken(f"{law}: it is {wanted}, and the engine has {found}")
