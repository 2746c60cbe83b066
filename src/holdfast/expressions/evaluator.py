"""The process in which expressions in CEL are evaluated that may make large values, or take long."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping
from typing import Any, Final

from cbor2 import CBORTag

from holdfast.expressions.engine import CannotEvaluate, MissingMember, compiled, plain
from holdfast.expressions.extents import LARGEST_VALUE, measure
from holdfast.expressions.process import BARE_ENVIRONMENT, EvaluationProcess, limit_memory, limited, questions, reply

EVALUATION_SECONDS: Final = 2.0
"""Processor time of one evaluation."""
PATIENCE_SECONDS: Final = 30.0
LARGEST_MEMORY: Final = 2 * 1024**3

TOO_LARGE: Final = f"its value has more than {LARGEST_VALUE:,} characters and items, which is the limit"

_TIME, _SPAN = 39_001, 39_002  # tags without another meaning

_process = EvaluationProcess(__name__, None, PATIENCE_SECONDS, BARE_ENVIRONMENT)
_servers_process = EvaluationProcess(__name__, None, PATIENCE_SECONDS, BARE_ENVIRONMENT)
"""One for what a server evaluates between requests: a run does not wait until those in front of it are done."""


def evaluate_apart(text: str, types: Mapping[str, str], variables: Mapping[str, Any], *, at_once: bool = False) -> Any:
    """The value of an expression. Raises CannotEvaluate as in this process, or if the value is too large; CutOff, or
    OSError, if it takes too much time or memory."""
    given = {name: _packed(plain(value)) for name, value in variables.items()}
    verdict, found = (_servers_process if at_once else _process).ask([text, dict(types), given])
    match verdict:
        case "value":
            return _unpacked(found)
        case "missing":
            raise MissingMember(found)
        case _:
            raise CannotEvaluate(found)


def _packed(value: Any) -> Any:
    match value:
        case datetime.datetime():
            return CBORTag(_TIME, value.isoformat())
        case datetime.timedelta():
            return CBORTag(_SPAN, [value.days, value.seconds, value.microseconds])
        case dict():
            return {key: _packed(item) for key, item in value.items()}
        case list():
            return [_packed(item) for item in value]
        case None | bool() | int() | float() | str() | bytes():
            return value
        case _:
            raise CannotEvaluate(f"its value is no data: it has a {type(value).__name__}")


def _unpacked(value: Any) -> Any:
    match value:
        case CBORTag(tag=tag, value=given):
            if tag == _TIME:
                return datetime.datetime.fromisoformat(given)
            return datetime.timedelta(days=given[0], seconds=given[1], microseconds=given[2])
        case dict():
            return {key: _unpacked(item) for key, item in value.items()}
        case list():
            return [_unpacked(item) for item in value]
        case _:
            return value


# -- in the process ----------------------------------------------------------------------------------------------------


def _answer(text: str, types: Mapping[str, str], given: Mapping[str, Any]) -> tuple[str, Any]:
    try:
        value = compiled(text, types).execute({name: _unpacked(each) for name, each in given.items()})
        if measure(value) > LARGEST_VALUE:
            return "cannot", TOO_LARGE
        return "value", _packed(value)
    except MissingMember as error:
        return "missing", error.name
    except CannotEvaluate as error:
        return "cannot", str(error)


def main() -> None:
    """Answer questions until the input ends: an expression, the types of its variables, and these."""
    limit_memory(LARGEST_MEMORY)
    asked = questions(sys.stdin.buffer)
    next(asked)
    compiled("1 + 1", {}).execute({})  # it loads the library, and none of a question's time
    reply("done", None)
    for text, types, given in limited(asked, EVALUATION_SECONDS):
        reply("done", _answer(text, types, given))


if __name__ == "__main__":
    main()
