"""What the simulated runs do where definitions drive them: documents in the words of the format, made from a seed.

Every verb is there: steps on and off queues, acts through the gate, forms, timers, signals with and without a key,
children that are definitions or functions, loops, forks, picks and graphs, time-outs, retries, undos and handlers.
Every document ends if every call is settled, every timer fires, people answer and every awaited signal is sent.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tests.laws.programs import SIGNALS, perform
from tests.simulation.gated import LANES, STEERED_MANNERS
from tests.simulation.workload import Act, act, queued, undoable

Body = dict[str, Any]

KEYS: Final = (None, None, "k")
ACTIONS: Final = ("gate.read", "gate.write", "gate.put", "gate.probed", "gate.book", "gate.book")
UNDOABLE: Final = frozenset({"gate.book", undoable.name})
"""Calls that are undone when their run fails or is cancelled, or their branch is lost."""
FORM: Final = {
    "type": "object",
    "required": ["word"],
    "properties": {"word": {"type": "string"}},
    "additionalProperties": False,
}


class Definer:
    """Makes documents from a source of randomness. ``plan`` makes plans for children that are functions."""

    def __init__(self, source: random.Random, others: list[str], plan: Callable[[], tuple[Act, ...]]) -> None:
        self._source, self._others, self._plan = source, others, plan
        self._count = 0
        self._tasks: Body = {}
        self._children: list[str] = []

    def family(self, name: str, size: int) -> list[Body]:
        """A definition, behind those that it runs."""
        children = [self.document(f"{name}.child{number}", 3) for number in range(self._source.choice((0, 1, 2)))]
        self._children = [child["name"] for child in children]
        return [*children, self.document(name, size)]

    def document(self, name: str, size: int) -> Body:
        self._tasks = {}
        steps = self._nodes(size, 0)
        document: Body = {"holdfast": "definition/1", "name": name, "version": 1, "steps": steps}
        document["state"] = {"n": {"default": 0}}
        document["reference"] = "=run.id"
        return document | ({"tasks": self._tasks} if self._tasks else {})

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def _span(self) -> str:
        return f"{self._source.choice((100, 500, 1000, 3000, 10_000))}ms"

    def _nodes(self, most: int, depth: int) -> list[Body]:
        return [self._node(depth) for _ in range(self._source.randint(1, most))]

    def _node(self, depth: int) -> Body:
        kinds = [self._step, self._step, self._act, self._act, self._task, self._sleep, self._wait]
        kinds += [self._run, self._send, self._continue]
        if depth < 3:
            kinds += [self._block, self._fork, self._fork, self._pick, self._graph, self._loop, self._at_once]
        name = self._name()
        return {name: self._source.choice(kinds)(name, depth) | self._more(depth)}

    def _more(self, depth: int) -> Body:
        """What every node may have. Most failures are taken care of."""
        source, body = self._source, dict[str, Any]()
        if source.random() < 0.2:
            body["timeout"] = self._span()
        if source.random() < 0.15:
            body["retry"] = {"max": source.randint(2, 3), "first": self._span(), "jitter": "none"}
        if source.random() < 0.75:
            more = source.random() < 0.15 and depth < 3
            handler = [{self._name(): self._source.choice((self._step, self._act))("", depth)}] if more else []
            body["on"] = {"failure": handler}
        return body

    def _step(self, name: str, depth: int) -> Body:
        key, fails = name or self._name(), self._source.choice((0, 0, 0, 1, 2, 9))
        roll = self._source.random()
        if roll < 0.35:
            return {"step": undoable.name, "with": {"key": key}}
        called = queued if roll < 0.5 else perform
        return {"step": called.name, "with": {"key": key, "fails": fails}}

    def _act(self, name: str, depth: int) -> Body:
        lane, manner = self._source.choice(LANES), self._source.choice(STEERED_MANNERS)
        action = self._source.choice(ACTIONS)
        return {"action": action, "with": {"name": name or self._name(), "lane": lane, "manner": manner}}

    def _task(self, name: str, depth: int) -> Body:
        lane = self._source.choice(LANES)
        declared: Body = {"title": f"Task {name}", "show": {"lane": lane}, "form": FORM}
        people = {"users": ["ann"]} if lane == "pair" else {"exclude": ["bob"]} if lane == "high" else {}
        declared |= {"for": people} if people else {}
        is_brief = lane == "brief"
        declared["due"] = {
            "in": "2s" if is_brief else "4s",
            "remind": ["1s"] if is_brief else ["1s", "2s"],
            "escalate": {"users": ["cy", "dan"]},
            "expire": "3s" if is_brief else "60s",
        }
        self._tasks[name] = declared
        return {"task": name}

    def _sleep(self, name: str, depth: int) -> Body:
        return {"sleep": self._span()}

    def _wait(self, name: str, depth: int) -> Body:
        key = self._source.choice(KEYS)
        return {"wait": self._source.choice(SIGNALS)} | ({} if key is None else {"key": key})

    def _run(self, name: str, depth: int) -> Body:
        if self._children and self._source.random() < 0.6:
            return {"run": self._source.choice(self._children)}
        return {"run": act.name, "with": {"plan": msgspec.to_builtins(self._plan())}}

    def _continue(self, name: str, depth: int) -> Body:
        if depth or self._source.random() < 0.6:
            return self._step(name, depth)
        return {"continue": act.name, "with": {"plan": msgspec.to_builtins(self._plan())}}

    def _send(self, name: str, depth: int) -> Body:
        sent = {"to": self._source.choice(self._others), "signal": self._source.choice(SIGNALS)}
        return {"send": sent | {"value": f"from {name}"}}

    # -- blocks ----------------------------------------------------------------------------------------------------

    def _block(self, name: str, depth: int) -> Body:
        return {"do": self._nodes(3, depth + 1)}

    def _fork(self, name: str, depth: int) -> Body:
        count = self._source.randint(2, 3)
        branches = {f"{name}{letter}": self._nodes(2, depth + 1) for letter in "abc"[:count]}
        return {"fork": branches, "join": self._source.choice(("all", "any", self._source.randint(1, count)))}

    def _pick(self, name: str, depth: int) -> Body:
        options = {}
        for make in self._source.sample((self._sleep, self._wait, self._step, self._act), self._source.randint(2, 3)):
            option = self._name()
            options[option] = make(option, depth) | {"do": self._nodes(1, depth + 1)}
        return {"pick": options}

    def _graph(self, name: str, depth: int) -> Body:
        nodes: Body = {}
        for _ in range(self._source.randint(2, 4)):
            ((each, body),) = self._node(depth + 1).items()
            for word in ("needs", "after"):
                if nodes and self._source.random() < 0.4:
                    body[word] = [self._source.choice(sorted(nodes))]
            nodes[each] = body
        return {"graph": nodes}

    def _loop(self, name: str, depth: int) -> Body:
        return {"repeat": {"times": self._source.randint(0, 3)}, "do": self._nodes(2, depth + 1)}

    def _at_once(self, name: str, depth: int) -> Body:
        loop: Body = {"times": self._source.randint(1, 4), "at_once": self._source.randint(1, 3)}
        loop |= {"errors": "keep"} if self._source.random() < 0.5 else {}
        return {"repeat": loop, "do": self._nodes(2, depth + 1)}
