"""An expression over declared variables: checked when it is made, evaluated any number of times.

It is deterministic. There is no clock, it reads nothing but its variables, and the limits on loops are counts, not
times. Times and durations are ``datetime`` and ``timedelta``, cut off below the microsecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.errors import InvalidDefinition
from holdfast.expressions.checker import Checker
from holdfast.expressions.engine import (
    CannotEvaluate,
    CompiledExpression,
    Fault,
    InvalidExpression,
    MissingMember,
    compiled,
)
from holdfast.expressions.extents import (
    LARGEST_AT_ONCE,
    are_within,
    foresee,
    harmless_size,
    has_few_parts,
    is_light,
)
from holdfast.expressions.parser import parse, within_depth
from holdfast.expressions.printer import unparse
from holdfast.expressions.process import CutOff, is_limited
from holdfast.expressions.reads import Read, cut, cutting_of, functions_of, place_of, uses_of
from holdfast.expressions.shapes import ValueShape
from holdfast.expressions.shortcut import NotSimple, shortcut_of
from holdfast.expressions.syntax import Tree
from holdfast.expressions.turns import NotAtOnce, may_wait

LONGEST_LIST: Final = 2_000
"""How many items a list or map has at most that a macro reads: `map` and `filter` cost the square, 60 ms for these."""

_BRANCHES: Final = "found no matching overload for '_?_:_' applied to '("


class Expression:
    """An expression in CEL over ``roots``: each variable with its shape. Raises InvalidExpression with every fault.

    It is made of a text or a tree. ``wanted`` is the shape that its value must have. With ``lazily`` the engine sees it
    when it is first needed, for texts that have been accepted before. One that is evaluated ``at_once`` is a server's,
    between requests (see ``turns``): it has no value if it may make a large one, or takes too long.
    """

    def __init__(
        self,
        source: str | Tree,
        roots: Mapping[str, ValueShape],
        wanted: ValueShape | None = None,
        *,
        longest_list: int = LONGEST_LIST,
        lazily: bool = False,
        at_once: bool = False,
    ) -> None:
        given = parse(source) if isinstance(source, str) else within_depth(source)
        checker = Checker(roots)
        self.tree, self.shape = checker.check(given, wanted)
        """Its tree with numbers widened, and what is known of its value."""
        self.text: Final = unparse(self.tree)
        """The normal text: what is kept. An expression made of it is the same."""
        if checker.faults:
            raise InvalidExpression(tuple(sorted(checker.faults)))
        # The engine must know what is a time; of all else it finds out more by itself.
        self._types: dict[str, str] = {
            name: shape.kind if shape.kind in ("timestamp", "duration") else "dyn" for name, shape in roots.items()
        }
        uses = self._uses = uses_of(self.tree, roots)
        self.reads: Final[frozenset[Read]] = frozenset(use.read for use in uses)
        """What it reads: each root with the members that it selects, as ``("state", "total")``."""
        self.roots: Final = frozenset(read[0] for read in self.reads)
        """The variables that it reads."""
        self._parts = [(str(root), part) for root, part in cutting_of(uses, roots, longest_list).items()]
        # A shortcut may read the same large value once for each part: in a server's turn there are few of them.
        self._shortcut = shortcut_of(self.tree, roots) if not at_once or has_few_parts(self.tree) else None
        self._is_light = is_light(self.tree)
        self._harmless: int | None = None
        self._at_once = at_once
        self._program: CompiledExpression | None = None
        if not lazily:
            self._program = self._compiled(source if isinstance(source, str) else self.text)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    @property
    def functions(self) -> frozenset[str]:
        """The functions and macros that it calls."""
        return frozenset(functions_of(self.tree))

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value over these variables; those that it does not read may be missing. Raises CannotEvaluate."""
        try:
            if self._shortcut is not None:
                try:
                    return self._shortcut(variables)
                except NotSimple:
                    pass
            return self.evaluate_by_engine(variables)
        except MissingMember as error:
            raise MissingMember(error.name, place_of(error.name, self._uses, variables)) from None

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Whether a condition is true: it is true or false, and nothing else. Raises CannotEvaluate."""
        found = self.evaluate(variables)
        if found is not True and found is not False:
            raise CannotEvaluate(f"the condition `{self.text}` is {found!r:.60}, and neither true nor false")
        return found

    def evaluate_by_engine(self, variables: Mapping[str, Any]) -> Any:
        """The same without the shortcut that simple expressions have.

        Raises InvalidDefinition if it takes too much time or memory, which nothing may catch: another machine might
        have had them.
        """
        if self._program is None:
            self._program = self._compiled(self.text)
        given = {name: cut(variables[name], part) for name, part in self._parts if name in variables}
        if not self._is_harmless(given) and not is_limited():
            foreseen = foresee(self.tree, given)
            if self._at_once and foreseen.largest > LARGEST_AT_ONCE:
                raise CannotEvaluate(f"it may make values of more than {LARGEST_AT_ONCE:,} characters")
            if not foreseen.is_slight:
                return self._evaluate_apart(given)
        return self._program.execute(given)

    def _is_harmless(self, given: Mapping[str, Any]) -> bool:
        """Whether nothing large or long can come of it, as most expressions over small values show in a moment."""
        if self._is_light:
            return True
        if self._harmless is None:
            self._harmless = harmless_size(self.tree)
        return are_within(given.values(), self._harmless)

    def _evaluate_apart(self, given: Mapping[str, Any]) -> Any:
        from holdfast.expressions import evaluator  # few expressions need it

        if self._at_once and not may_wait():
            raise NotAtOnce
        try:
            return evaluator.evaluate_apart(self.text, self._types, given, at_once=self._at_once)
        except (CutOff, OSError):
            if self._at_once:
                raise CannotEvaluate("it takes too long, or too much memory") from None
            raise InvalidDefinition(
                f"the expression `{self.text[:200]}` takes too long, or too much memory: mend it"
            ) from None

    def _compiled(self, original: str) -> CompiledExpression:
        try:
            return compiled(self.text, self._types)
        except InvalidExpression as error:
            raise InvalidExpression(tuple(_placed(original, self._types, error.faults))) from None


def _placed(original: str, types: Mapping[str, str], faults: tuple[Fault, ...]) -> list[Fault]:
    """Faults of the normal text at the places where they stand in the author's."""
    try:
        compiled(original, types)
        written: tuple[Fault, ...] = ()
    except InvalidExpression as error:
        written = error.faults
    found = {fault.what for fault in faults}
    placed = [fault for fault in written if fault.what in found]
    unplaced = [fault._replace(line=1, column=1) for fault in faults]
    return [fault._replace(what=_explained(fault.what)) for fault in placed or unplaced]


def _explained(what: str) -> str:
    first, _, second = what.partition(_BRANCHES)[2].rpartition(")'")[0].partition(", ")[2].rpartition(", ")
    if not first:
        return what
    return f"one branch of `?` is {first}, the other {second}: write `dyn(…)` around one if that is meant"
