"""Texts that are meant to be slow for a pattern, made from the pattern's own parse tree.

Everywhere that the pattern repeats, each part that may be repeated there is, behind what leads there, and before an end
that does not fit. Parts are: what fits, each sign and each run of signs that the pattern names, and each stretch of the
pattern: one that is a beginning is then begun again and again, and never ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

# The parser's modules have no types; there is no other way to a pattern's tree.
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

from tests.laws.linear.growth import Attack

_MANY: Final = 20
"""From how many repetitions on a repetition is one without end."""
_ALWAYS: Final = ("a", "0", " ", "\n")
_UNFIT: Final = "\x00"
_CATEGORIES: Final = {
    sre.CATEGORY_DIGIT: "0",
    sre.CATEGORY_NOT_DIGIT: "a",
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_NOT_SPACE: "a",
    sre.CATEGORY_WORD: "a",
    sre.CATEGORY_NOT_WORD: "!",
}
_REPEATS: Final = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_MOST_SAMPLES: Final = 16
_LONGEST: Final = 12
"""Pieces of a stretch."""


def attacks_on(pattern: str | bytes, flags: int) -> list[Attack]:
    """The attacks on a pattern, each once. A pattern that no long text fits is as quick as it is short: none."""
    tree = _Tree(pattern, flags)
    found: dict[Attack, None] = {}
    for prefix, own in tree.repeats():
        for part in dict.fromkeys((*own, *tree.parts())):
            found.update(dict.fromkeys(Attack(prefix, part, suffix) for suffix in tree.suffixes() if part))
    if isinstance(pattern, bytes):
        return [Attack(*(each.encode("latin-1") for each in attack)) for attack in found]
    return list(found)


class _Tree:
    """The parse tree of one pattern."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._tree = _parser.parse(pattern, flags)
        self._groups: dict[int, str] = {}
        self._runs: dict[str, None] = {}
        self._stretches: dict[str, None] = {}
        self._gather(self._tree)
        self._alphabet = self._signs()[:30]

    def parts(self) -> Iterable[str]:
        return (*_ALWAYS, *self._alphabet, *self._runs, *self._stretches)

    def suffixes(self) -> Sequence[str]:
        """Ends that do not fit; half of an escape is one, too."""
        return (_UNFIT, "\\") if "\\" in self._alphabet else (_UNFIT,)

    def repeats(self) -> Iterator[tuple[str, Sequence[str]]]:
        """What leads to each repetition without end, and what is repeated there. Nothing leads to the text itself."""
        if self._tree.getwidth()[1] >= _MANY * _MANY:
            yield "", ()
            yield from self._repeats(self._tree, "")

    def _repeats(self, items: Any, prefix: str) -> Iterator[tuple[str, Sequence[str]]]:
        for item in items:
            op, value = item
            if op in _REPEATS:
                _, most, body = value
                if most == sre.MAXREPEAT or most >= _MANY:
                    yield prefix, self._sequence(body)
                yield from self._repeats(body, prefix)
            else:
                for inner in _inside(item):
                    yield from self._repeats(inner, prefix)
            prefix += self._samples(item)[0]

    def _gather(self, items: Any) -> None:
        """The runs of signs of all sequences, and what stands between two repetitions, or goes up to one."""
        flat = list(self._flat(items))
        self._runs.update(dict.fromkeys(text for text, is_run in flat if is_run))
        texts = [text for text, _ in flat]
        for begin in range(len(texts)):
            for end in range(begin + 1, min(len(texts), begin + _LONGEST) + 1):
                self._stretches["".join(texts[begin:end])] = None
        for op, value in items:
            if op is sre.IN:
                for kind, given in value:
                    for sign in (given,) if kind is sre.LITERAL else given if kind is sre.RANGE else ():
                        self._runs[chr(sign)] = None
            for inner in _inside((op, value)):
                self._gather(inner)

    def _flat(self, items: Any) -> Iterator[tuple[str, bool]]:
        """A text that fits a sequence, in pieces: each run of signs that the pattern names is one."""
        run = ""
        for item in items:
            op, value = item
            if op is sre.LITERAL:
                run += chr(value)
                continue
            if run:
                yield run, True
            run = ""
            if op in (sre.SUBPATTERN, sre.ATOMIC_GROUP):
                yield from self._flat(_inside(item)[0])
            else:
                yield self._samples(item)[0], False
        if run:
            yield run, True

    def _sequence(self, items: Any) -> tuple[str, ...]:
        """Some texts that fit a sequence: each has another choice at one place."""
        each = [self._samples(item) for item in items]
        first = [samples[0] for samples in each]
        found = ["".join(first)]
        for at, samples in enumerate(each):
            found += ["".join((*first[:at], other, *first[at + 1 :])) for other in samples[1:]]
        return tuple(dict.fromkeys(found))

    def _samples(self, item: Any) -> tuple[str, ...]:
        """Some texts that fit one item."""
        op, value = item
        if op is sre.LITERAL:
            return (chr(value),)
        if op is sre.NOT_LITERAL:
            return tuple(sign for sign in self._signs() if sign != chr(value))
        if op is sre.ANY:
            return self._signs()
        if op is sre.IN:
            return self._of_set(value)
        if op in _REPEATS:
            least, _, body = value
            return tuple(text * max(least, 1) for text in self._sequence(body)[:_MOST_SAMPLES])
        if op is sre.GROUPREF:
            return (self._groups.get(value, ""),)
        if op in (sre.AT, sre.ASSERT, sre.ASSERT_NOT):
            return ("",)
        found = tuple(text for inner in _inside(item) for text in self._sequence(inner)[:_MOST_SAMPLES]) or ("",)
        if op is sre.SUBPATTERN and value[0]:
            self._groups[value[0]] = found[0]
        return found

    def _signs(self) -> tuple[str, ...]:
        """Any signs: those that the pattern names come first."""
        return tuple(dict.fromkeys((*(sign for run in self._runs for sign in run), *_ALWAYS)))

    def _of_set(self, choices: Any) -> tuple[str, ...]:
        is_negated = choices[0][0] is sre.NEGATE
        named: list[str] = []
        for kind, value in choices:
            if kind is sre.LITERAL:
                named.append(chr(value))
            elif kind is sre.RANGE:
                named.append(chr(value[0]))
            elif kind is sre.CATEGORY:
                named.append(_CATEGORIES[value])
        if not is_negated:
            return tuple(named)[:_MOST_SAMPLES]
        return tuple(sign for sign in (*self._signs(), "!", "~") if not _is_in(sign, choices)) or ("\x7f",)


def _is_in(sign: str, choices: Any) -> bool:
    for kind, value in choices:
        if kind is sre.LITERAL and ord(sign) == value:
            return True
        if kind is sre.RANGE and value[0] <= ord(sign) <= value[1]:
            return True
        if kind is sre.CATEGORY and _is_of(sign, value):
            return True
    return False


def _is_of(sign: str, category: Any) -> bool:
    return {
        sre.CATEGORY_DIGIT: sign.isdigit(),
        sre.CATEGORY_NOT_DIGIT: not sign.isdigit(),
        sre.CATEGORY_SPACE: sign.isspace(),
        sre.CATEGORY_NOT_SPACE: not sign.isspace(),
        sre.CATEGORY_WORD: sign.isalnum() or sign == "_",
        sre.CATEGORY_NOT_WORD: not (sign.isalnum() or sign == "_"),
    }[category]


def _inside(item: Any) -> list[Any]:
    """The sequences inside an item."""
    op, value = item
    if op in _REPEATS:
        return [value[2]]
    if op is sre.BRANCH:
        return list(value[1])
    if op is sre.SUBPATTERN:
        return [value[3]]
    if op is sre.ATOMIC_GROUP:
        return [value]
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [value[1]]
    if op is sre.GROUPREF_EXISTS:
        return [each for each in value[1:] if each is not None]
    return []
