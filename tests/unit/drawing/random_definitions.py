"""Random definitions for the laws of the layout: every verb, nested, with handlers and undo. A seed gives one."""

from __future__ import annotations

import random
from typing import Any

from holdfast.programs.definition import model as m

_WORDS = ("pay", "ask", "fetch_the_whole_list_of_open_invoices", "Ärger", "x", "支払い", "a.b", "check-it")
_CONDITIONS = ("state.total > 100", "true", 'payload.decision == "approve" && state.score > 0.9 && state.total < 10.0')


class DefinitionMaker:
    """Makes definitions of about ``size`` nodes."""

    def __init__(self, seed: int, size: int = 24) -> None:
        self._random = random.Random(seed)
        self._left = size
        self._count = 0

    def definition(self) -> m.Definition:
        nodes: list[m.Node] = []
        while self._left > 0 and len(nodes) < 60:
            nodes.append(self._node(0))
        ends = [self._leaf(m.EndVerb(result={"a": "=state.x"}))] if self._chance(0.5) else []
        return m.Definition(name="random.flow", version=1, title="Random", steps=(*nodes, *ends))

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _name(self) -> str:
        self._count += 1
        return f"{self._random.choice(_WORDS)}_{self._count}"

    def _nodes(self, depth: int, most: int = 4) -> m.Nodes:
        return tuple(self._node(depth) for _ in range(self._random.randrange(most)) if self._left > 0)

    def _node(self, depth: int, **parts: Any) -> m.Node:
        self._left -= 1
        makers = [self._plain] * 5
        if depth < 5:
            makers += [self._switch, self._repeat, self._fork, self._pick, self._graph, self._block]
        verb = self._random.choice(makers)(depth)
        return self._leaf(verb, depth, **parts)

    def _leaf(self, verb: m.Verb, depth: int = 9, **parts: Any) -> m.Node:
        if depth < 6 and self._chance(0.25):
            parts["on"] = self._handlers(depth)
        if self._chance(0.15):
            parts["undo"] = m.UndoCall(verb=m.CallVerb(kind="action", name="stock.free_what_was_taken"))
        if self._chance(0.2):
            parts["title"] = "A title of some length that says more than the name"
        if self._chance(0.2):
            parts["when"] = self._random.choice(_CONDITIONS)
        return m.Node(name=self._name(), verb=verb, **parts)

    def _handlers(self, depth: int) -> m.Handlers:
        return m.Handlers(
            **{name: self._nodes(depth + 1, 3) for name in ("success", "failure", "timeout") if self._chance(0.5)}
        )

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def _plain(self, depth: int) -> m.Verb:
        return self._random.choice(
            (
                m.SetVerb(values=((("state", "x"), 1), (("state", "a_longer_name"), "=state.x"))),
                m.CallVerb(kind="step", name="fraud.score"),
                m.CallVerb(kind="action", name="payout.pay"),
                m.TransportVerb(verb="http", request={"get": "https://service.example/a/very/long/path/that/is/cut"}),
                m.TaskVerb(task="approve"),
                m.WaitVerb(signal="documents", key="=start.id", match=_CONDITIONS[2]),
                m.SleepVerb(span=7_200_000_000),
                m.RunVerb(workflow="letters.send", version=2),
                m.ContinueVerb(workflow="claims.archive"),
                m.SendVerb(to="=state.other", signal="done"),
                m.RaiseVerb(code="TOO_LATE"),
            )
        )

    def _switch(self, depth: int) -> m.Verb:
        cases = [
            m.Case(when=self._random.choice(_CONDITIONS), do=self._nodes(depth + 1))
            for _ in range(self._random.randrange(1, 5))
        ]
        last = [m.Case(when=None, do=self._nodes(depth + 1))] if self._chance(0.6) else []
        return m.SwitchVerb(cases=(*cases, *last))

    def _repeat(self, depth: int) -> m.Verb:
        at_once = 8 if self._chance(0.4) else None
        return m.RepeatVerb(do=self._nodes(depth + 1), over="=start.items", at_once=at_once)

    def _fork(self, depth: int) -> m.Verb:
        count = self._random.randrange(1, 5)
        branches = tuple(m.Branch(name=f"b{at}", do=self._nodes(depth + 1)) for at in range(count))
        return m.ForkVerb(branches=branches, join=self._random.choice((None, 1)))

    def _pick(self, depth: int) -> m.Verb:
        return m.PickVerb(
            options=tuple(
                m.Option(trigger=self._leaf(m.WaitVerb(signal="paid")), do=self._nodes(depth + 1))
                for _ in range(self._random.randrange(1, 4))
            )
        )

    def _graph(self, depth: int) -> m.Verb:
        nodes: list[m.Node] = []
        for _ in range(self._random.randrange(1, 9)):
            names = [node.name for node in nodes]
            needs = tuple(self._random.sample(names, self._random.randrange(min(3, len(names)) + 1)))
            after = tuple(self._random.sample(names, 1)) if names and self._chance(0.2) else ()
            nodes.append(self._node(depth + 1, needs=needs, after=after))
        self._random.shuffle(nodes)
        return m.GraphVerb(nodes=tuple(nodes))

    def _block(self, depth: int) -> m.Verb:
        return m.BlockVerb(do=self._nodes(depth + 1))


def made(seed: int, size: int = 24) -> m.Definition:
    """The definition of a seed."""
    return DefinitionMaker(seed, size).definition()
