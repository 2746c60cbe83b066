"""The laws of charts: a stored configuration is the same and steps the same, and a chart rests only in legal states."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidDefinition
from holdfast.programs.machine.charts import (
    Chart,
    ChartConfiguration,
    ChartEvent,
    ChartLimits,
    ChartResult,
    begin,
    decode_chart,
    decode_configuration,
    encode_chart,
    encode_configuration,
    fire,
    parse,
    step,
)
from holdfast.programs.machine.charts.structure import structure_of
from tests.charts import illegal
from tests.scope import volume

HISTORIES = ("shallow", "deep")
LIMITS = ChartLimits(microsteps=20, cost=20_000)

CONTENT = [
    '<assign location="n" expr="n + 1"/>',
    "<assign location=\"items\" expr=\"items + [n, 'x', {'z': n, 'bb': 0.5, 'a': [n]}]\"/>",
    "<script>items.append(n)\nby['k' + str(n % 3)] = [key for key in by]</script>",
    '<script>other = items</script><script>other.append("own")</script>',
    '<assign location="by[\'latest\']" expr="_event"/>',
    '<raise event="d"/>',
    '<send event="b"/>',
    '<send event="c" delay="1s" id="late"/>',
    '<send eventexpr="\'b\'" delayexpr="str(n) + \'ms\'"><param name="n" expr="n"/></send>',
    '<cancel sendid="late"/>',
    '<foreach item="each" array="items"><if cond="each == n"><assign location="n" expr="n + 2"/></if></foreach>',
    '<assign location="missing" expr="1"/><assign location="n" expr="100"/>',
    '<log expr="str(by)"/>',
]
CONDITIONS = ["n % 2 == 0", "n &lt; 5", "len(items) > 2", "In('s1')", "missing"]
QUIET = ["done.state", "error", "*"]
"""Events that content itself can cause: their transitions have none, or most charts would go on for ever."""

Element = tuple[str, int, list[Any]]
"""A kind of state, its number, and its children."""


class Sketcher:
    """Draws charts with nested and parallel states, histories, finals and content, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._all: list[Element] = []

    def chart(self) -> Chart:
        """A chart that the reader accepts."""
        roots = [self._grow(3, ["state", "state", "parallel"]) for _ in range(self._random.randint(1, 3))]
        roots.append(self._grow(0, ["final"]))
        data = '<data id="n" expr="0"/><data id="items">[1, 2]</data><data id="by" expr="{}"/>'
        binding = self._random.choice(["early", "late"])
        states = "".join(self._text(each, roots) for each in roots)
        return parse(f'<scxml binding="{binding}" datamodel="python"><datamodel>{data}</datamodel>{states}</scxml>')

    def _grow(self, depth: int, kinds: list[str]) -> Element:
        kind = self._random.choice(kinds)
        children: list[Element] = []
        element = (kind, len(self._all), children)
        self._all.append(element)
        if kind in ("state", "parallel") and depth:
            kinds = ["state", "parallel"] if kind == "parallel" else ["state", "state", "parallel", "final"]
            children += [self._grow(depth - 1, kinds) for _ in range(self._random.randint(0, 3))]
            if children and self._random.random() < 0.5:
                children.append(self._grow(0, ["shallow", "deep"]))
        return element

    def _inside(self, element: Element) -> list[Element]:
        return [element, *(each for child in element[2] for each in self._inside(child))]

    def _content(self) -> str:
        return "".join(self._random.sample(CONTENT, self._random.choice([0, 0, 1, 2])))

    def _targets(self) -> str:
        regions = [each for each in self._all if each[0] == "parallel" and each[2]]
        if regions and self._random.random() < 0.4:
            children = [child for child in self._random.choice(regions)[2] if child[0] not in HISTORIES]
            return " ".join(f"s{self._random.choice(self._inside(child))[1]}" for child in children)
        return f"s{self._random.choice(self._all)[1]}"

    def _transition(self) -> str:
        event = self._random.choice(["a", "b", "c"] * 4 + [*QUIET, ""])
        condition = "n &lt; 3" if not event else self._random.choice(["", "", self._random.choice(CONDITIONS)])
        content = "" if event in QUIET else self._content() if event else CONTENT[0]
        to = f' target="{self._targets()}"' if self._random.random() < 0.8 else ""
        internal = self._random.choice(["", ' type="internal"'])
        when = (f' event="{event}"' if event else "") + (f' cond="{condition}"' if condition else "")
        return f"<transition{when}{to}{internal}>{content}</transition>"

    def _text(self, element: Element, siblings: list[Element]) -> str:
        kind, number, children = element
        if kind in HISTORIES:
            default = self._random.choice([each for each in siblings if each[0] not in HISTORIES])
            return f'<history id="s{number}" type="{kind}"><transition target="s{default[1]}"/></history>'
        parts = [f"<onentry>{self._content()}</onentry><onexit>{self._content()}</onexit>"]
        if kind != "final":
            parts += [self._transition() for _ in range(self._random.randint(1, 4))]
        if kind == "state" and children and self._random.random() < 0.5:
            first = self._random.choice([each for child in children for each in self._inside(child)])
            parts.append(f'<initial><transition target="s{first[1]}">{self._content()}</transition></initial>')
        parts += [self._text(each, children) for each in children]
        return f'<{kind} id="s{number}">{"".join(parts)}</{kind}>'


charts = st.integers(0, 2**32).map(lambda seed: Sketcher(seed).chart())
acts = st.lists(st.one_of(st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 1)), min_size=3, max_size=10)


def stepped(chart: Chart, configuration: ChartConfiguration, act: str | int) -> ChartResult:
    """An event, or the timer at some place among those that run."""
    if isinstance(act, str):
        event = ChartEvent(name=act, data={"b": [1.0, None], "aa": act})
        return step(chart, configuration, event, limits=LIMITS)
    running = sorted(configuration.timers, key=int)
    return fire(chart, configuration, running[act] if act < len(running) else "0", limits=LIMITS)


@given(charts, acts)
@settings(max_examples=volume(50, 100), deadline=None)
def test_a_chart_steps_the_same_from_a_stored_configuration_and_rests_only_in_legal_states(
    chart: Chart, acts: list[str | int]
) -> None:
    assert decode_chart(encode_chart(chart)) == chart
    structure = structure_of(chart)
    try:
        result = begin(chart, "session", limits=LIMITS)
        sent = [send.event for send in result.sends]
        for act in acts:
            configuration = result.configuration
            before = encode_configuration(configuration)
            stored = decode_configuration(before)
            assert stored == configuration
            assert illegal(structure, configuration.active) == []
            result = stepped(chart, configuration, act)
            assert stepped(chart, stored, act) == result
            assert encode_configuration(configuration) == before  # a step changes nothing that it was given
            sent.extend(send.event for send in result.sends)
            if sent and not result.configuration.is_finished:
                result = step(chart, result.configuration, sent.pop(0), limits=LIMITS)
        assert illegal(structure, result.configuration.active) == []
    except InvalidDefinition as error:
        if "look for" not in str(error):  # it is no chart that goes on for ever
            raise
