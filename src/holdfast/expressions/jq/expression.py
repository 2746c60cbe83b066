"""An expression in jq, as definitions have them: checked, and evaluated over variables.

``.`` is ``local.data``, the data that flows from node to node. ``$name`` is a root, a name that a block or a repeat
binds, or a member of ``state``. Nothing else can be seen: what would read the clock, the environment, other input or
files is refused, and ``now`` is a recorded time. An expression gives one value; where it gives none or several, that is
an error that says how to mend it.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from holdfast.errors import ExtraMissing, InvalidDefinition
from holdfast.expressions.engine import CannotEvaluate, Fault, InvalidExpression
from holdfast.expressions.jq.functions import prelude
from holdfast.expressions.jq.lexer import JqToken, lex
from holdfast.expressions.process import BARE_ENVIRONMENT, CutOff, EvaluationProcess, is_limited
from holdfast.expressions.shapes import DYN

CUT_OFF_SECONDS: Final = 30.0
"""How long one evaluation may take on a machine that gives it no processor. Its own limit is that of ``process``."""
LARGEST_INPUT: Final = 32 * 1024 * 1024

REFUSED: Final = frozenset(
    {
        "$ENV",
        "$__loc__",
        "$__prog_args",
        "env",
        "get_search_list",
        "halt",
        "halt_error",
        "import",
        "include",
        "input",
        "input_filename",
        "input_line_number",
        "inputs",
        "modulemeta",
    }
)
"""What would read something that is not recorded, or end the evaluation."""

_KEYWORDS: Final = frozenset(
    {
        *("and", "as", "catch", "def", "elif", "else", "end", "false", "foreach", "if"),
        *("label", "null", "or", "reduce", "then", "true", "try"),
    }
)

MISSING: Final = "Expressions in jq need an extra: pip install 'holdfast[serverless]'."

_COMPLAINT: Final = "jq: error: "
_PLACE: Final = re.compile(r" at <top-level>, line (?P<line>\d+)(?:, column (?P<column>\d+))?:?$")

_process = EvaluationProcess("holdfast.expressions.jq.process", None, CUT_OFF_SECONDS, BARE_ENVIRONMENT)


class JqExpression:
    """An expression over ``names``. Raises InvalidExpression; what only the library can see, where not ``lazily``."""

    def __init__(self, text: str, names: Collection[str], *, lazily: bool = False) -> None:
        self.text: Final = text.strip()
        """The text that is kept. An expression made of it is the same."""
        if not self.text:
            raise InvalidExpression((Fault(1, 1, "it is empty"),))
        tokens = lex(self.text)
        if not tokens:
            raise InvalidExpression((Fault(1, 1, "it is a comment, and nothing else"),))
        _refuse(self.text, tokens)
        self._names = sorted({token.word for token in tokens if token.kind == "variable"} & set(names))
        self.shape: Final = DYN
        """What is known of its value: nothing before it is evaluated."""
        self.reads: Final = frozenset(_reads(tokens))
        """What it reads: each root or name with the members that it selects."""
        self.roots: Final = frozenset(read[0] for read in self.reads)
        self.functions: Final = frozenset(token.word for token in tokens if token.kind == "word") - _KEYWORDS
        """The functions that it calls."""
        words = {token.word for token in tokens if token.kind == "word"}
        bound = "".join(f"${name}, " for name in self._names)
        # The text stands on lines of its own, so that a comment at its end hides nothing, and its lines can be counted.
        self._program = (
            f"{prelude(words)} . as [{bound}$__now__, $__data__] | def now: $__now__; $__data__ | (\n"
            f"{self.text}\n) | tojson"
        )
        self._shortcut = _shortcut(tokens)
        if not lazily:
            self._check()

    def __repr__(self) -> str:
        return f"JqExpression({self.text!r})"

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value. Raises CannotEvaluate; InvalidDefinition where it takes too long, which nothing may catch:
        another machine might have had the time."""
        if self._shortcut is not None:
            return self._shortcut(variables)
        kind, *more = _ask(self._program, self._input(variables), self.text)
        match kind:
            case "value":
                return json.loads(more[0])
            case "nothing":
                raise CannotEvaluate(f"`{self._shown}` gives nothing: write `[…]` around it, or `… // null`")
            case "several":
                raise CannotEvaluate(f"`{self._shown}` gives several values: write `[…]` or `first(…)` around it")
            case "large":
                raise CannotEvaluate(f"`{self._shown}` gives a value that is too large")
            case _:
                raise CannotEvaluate(f"`{self._shown}` fails; jq says: {str(more[0])[:300]}")

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Whether it is true, as jq has it: everything is, but for false and null. Raises CannotEvaluate."""
        found = self.evaluate(variables)
        return found is not None and found is not False

    @property
    def _shown(self) -> str:
        return self.text if len(self.text) <= 80 else self.text[:79] + "…"

    def _input(self, variables: Mapping[str, Any]) -> str:
        values = [variable(name, variables) for name in self._names]
        now = variables.get("now")
        time = None if now is None else now.timestamp()
        try:
            text = json.dumps([*values, time, data(variables)], allow_nan=False, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise CannotEvaluate(f"what `{self._shown}` reads cannot be written as JSON: {error}") from None
        if len(text) > LARGEST_INPUT:
            raise CannotEvaluate(f"what `{self._shown}` reads is too large for one evaluation")
        return text

    def _check(self) -> None:
        if not _is_installed():
            raise ExtraMissing(MISSING)
        kind, *more = _ask(self._program, None, self.text)
        if kind != "valid":
            raise InvalidExpression(tuple(_faults(str(more[0]))))


def variable(name: str, variables: Mapping[str, Any]) -> Any:
    """The value of ``$name``; null where there is none."""
    if name in variables:
        found = variables[name]
        return found.timestamp() if name == "now" else found
    state = variables.get("state")
    return state.get(name) if isinstance(state, Mapping) else None


def data(variables: Mapping[str, Any]) -> Any:
    """The value of ``.``."""
    local = variables.get("local")
    return local.get("data") if isinstance(local, Mapping) else None


def _is_installed() -> bool:
    return importlib.util.find_spec("jq") is not None


def _ask(program: str, input: str | None, text: str) -> list[Any]:
    if not _is_installed():
        raise InvalidDefinition(f"{MISSING} Then resume the run.")
    if is_limited():
        from holdfast.expressions.jq.process import answer

        return answer(program, input)
    try:
        found: list[Any] = _process.ask([program, input])
    except (CutOff, OSError):
        raise InvalidDefinition(f"the expression `{text[:200]}` takes too long, or too much memory: mend it") from None
    return found


def _refuse(text: str, tokens: list[JqToken]) -> None:
    """Raises InvalidExpression where it calls what would make a run depend on more than is recorded."""
    faults = []
    line, begin, seen = 1, 0, 0
    for token in tokens:
        word = f"${token.word}" if token.kind == "variable" else token.word
        hidden = token.kind == "variable" and token.word.startswith("__")
        if token.kind in ("variable", "word") and (word in REFUSED or hidden):
            line += text.count("\n", seen, token.at)
            begin = max(begin, text.rfind("\n", seen, token.at) + 1)
            seen = token.at
            what = f"`{word}` is not there: an expression sees what is recorded, and nothing else"
            faults.append(Fault(line, token.at - begin + 1, what))
    if faults:
        raise InvalidExpression(tuple(faults))


def _reads(tokens: list[JqToken]) -> set[tuple[str, ...]]:
    """The variables with the members that are selected of them; ``.`` may be read by anything."""
    found: set[tuple[str, ...]] = {("local", "data")}
    for at, token in enumerate(tokens):
        if token.kind == "variable":
            fields = []
            while at + 1 < len(tokens) and tokens[at + 1].kind == "field":
                at += 1
                fields.append(tokens[at].word)
            found.add((token.word, *fields))
        elif token.kind == "word" and token.word == "now":
            found.add(("now",))
    return found


def _faults(message: str) -> list[Fault]:
    lines = [line.removeprefix(_COMPLAINT) for line in message.split("\n") if line.startswith(_COMPLAINT)]
    return [_fault(line) for line in lines] or [Fault(1, 1, message.partition("\n")[0])]


def _fault(complaint: str) -> Fault:
    """One complaint of the library, without what it adds in parentheses."""
    place = _PLACE.search(complaint)
    what = complaint if place is None else complaint[: place.start()]
    if what.endswith(")"):
        what = what.partition(" (")[0]
    line, column = (None, None) if place is None else place.group("line", "column")
    return Fault(max(int(line or 2) - 1, 1), int(column or 1), what)


# -- what needs no engine ----------------------------------------------------------------------------------------------


def _shortcut(tokens: list[JqToken]) -> Callable[[Mapping[str, Any]], Any] | None:
    """A path alone, or one that is compared with a text: most conditions and many values are no more."""
    if len(tokens) > 2 and tokens[-1].kind == "string" and tokens[-2].word in ("==", "!="):
        path, literal = _path(tokens[:-2]), tokens[-1].word
        if path is None or "\\" in literal:
            return None
        wanted, same = literal[1:-1], tokens[-2].word == "=="
        return lambda variables: (path(variables) == wanted) is same
    if len(tokens) == 1 and tokens[0].kind == "word" and tokens[0].word in _CONSTANTS:
        constant = _CONSTANTS[tokens[0].word]
        return lambda _: constant
    return _path(tokens)


_CONSTANTS: Final = {"true": True, "false": False, "null": None}


def _path(tokens: list[JqToken]) -> Callable[[Mapping[str, Any]], Any] | None:
    first, *rest = tokens
    if first.kind == "variable":
        root = first.word
        read: Callable[[Mapping[str, Any]], Any] = lambda variables: variable(root, variables)  # noqa: E731
    elif first.kind == "field":
        read, rest = data, tokens
    elif first.kind == "mark" and first.word == "." and not rest:
        return data
    else:
        return None
    if any(token.kind != "field" for token in rest):
        return None
    names = [token.word for token in rest]
    return lambda variables: _member(read(variables), names)


def _member(value: Any, names: list[str]) -> Any:
    for name in names:
        if value is not None and not isinstance(value, Mapping):
            raise CannotEvaluate(f"`.{name}` is read of a value that is no object: {value!r:.60}")
        value = None if value is None else value.get(name)
    return value
