"""Random cases: definitions in the words of the format, what happens to their runs, all from one seed.

No two things happen at the same time by chance: every span is drawn to the microsecond, and parallel branches and
iterations begin with a call, whose duration is its own. Branches write places of their own.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from holdfast.errors import InvalidDefinition
from tests.laws.definitions.outside import CONTINUED, FUNCTION

Body = dict[str, Any]

SIGNALS: Final = ("go", "paid")
KEYS: Final = (None, None, "k")
PRIMES: Final = (7919, 104_729, 1_299_709, 15_485_863)
RICH: Final = 1_000_000
"""Seeds from here on mix what earlier ones do not. Those are as they were, so that a known one stays what it is."""
END_OF_TIME: Final = 1_000_000
"""Seconds after which a run that still waits is cancelled."""


@dataclass(frozen=True)
class Case:
    """A definition and what happens to its run. ``children`` are the definitions that it may run, inner ones first."""

    seed: int
    document: Body
    children: dict[str, Body]
    signals: tuple[tuple[int, str, int], ...]
    cancel_at: int


def case(seed: int) -> Case:
    """The case of a seed: the first that the compiler accepts. It knows more than this generator of what is refused."""
    from tests.laws.definitions.world import Library

    for attempt in itertools.count():
        found = _grown(seed, random.Random(f"{seed}/{attempt}" if attempt else seed))
        try:
            Library(found)
        except InvalidDefinition:
            continue
        return found
    raise AssertionError("unreachable")


def _grown(seed: int, source: random.Random) -> Case:
    rich = seed >= RICH
    children: dict[str, Body] = {}
    for number in range(source.choice((0, 1, 1, 2))):
        name = f"laws.child{number}"
        pure = rich and source.random() < 0.4
        grower = _Grower(source, dict(children), rich=rich, pure=pure)
        children[name] = grower.document(name, source.randint(1, 6))
    document = _Grower(source, children, rich=rich).document("laws.root", source.choice((4, 12, 25, 40)))
    latest = source.choice((400_000_000, 5_000_000)) if rich else 400_000_000
    signals = sorted(
        (source.randrange(latest), _address(source), source.randrange(10)) for _ in range(source.randint(0, 8))
    )
    chance = 0.3 if rich else 0.15
    cancel_at = source.randrange(1_000_000, 300_000_000) if source.random() < chance else END_OF_TIME * 1_000_000
    for each in (document, *children.values()):
        _rename_actions(each)
    return Case(seed, document, children, tuple(signals), cancel_at)


def _rename_actions(part: Any) -> None:
    """Actions that are tried again only read: people are asked at once what became of one that writes."""
    if isinstance(part, dict):
        if part.get("action") == "laws.definitions.act":
            name = "look" if "retry" in part else "book" if "undo" in part else "act"
            part["action"] = f"laws.definitions.{name}"
        for each in part.values():
            _rename_actions(each)
    elif isinstance(part, list):
        for each in part:
            _rename_actions(each)


def _alive(body: Body) -> Body:
    """The node without a handler of a time-out where nothing is ever too late: such a handler is refused."""
    on = body.get("on", {})
    if "timeout" in on and "timeout" not in body and body.keys() & {"send", "set", "sleep", "task", "wait"}:
        late, success = on.pop("timeout"), on.get("success", [])
        on["success"] = success if success and _stops(success[-1]) else [*success, *late]
    return body


def _address(source: random.Random) -> str:
    name, key = source.choice(SIGNALS), source.choice(KEYS)
    return name if key is None else f"{name}#{key}"


@dataclass(frozen=True)
class _Place:
    """Where nodes grow: which places they may write, which indexes they are under, what holds for them."""

    writable: tuple[str, ...]
    indexes: tuple[str, ...] = ()
    depth: int = 0
    may_end: bool = True
    timed: bool = True
    at_once: bool = False


class _Grower:
    def __init__(
        self, source: random.Random, children: dict[str, Body], *, rich: bool = False, pure: bool = False
    ) -> None:
        self._source, self._children, self._rich, self._pure = source, children, rich, pure
        self._names = 0
        self._left = 0
        self._tasks: Body = {}
        self._called: list[str] = []

    def document(self, name: str, size: int) -> Body:
        """A definition of about so many nodes."""
        source = self._source
        self._left = size
        state = [f"s{number}" for number in range(source.randint(2, 6))]
        self._state = [f"state.{name}" for name in state]
        writable = [*self._state, *(["reference"] if source.random() < 0.4 else [])]
        steps = self.nodes(_Place(tuple(writable)), most=8)
        if source.random() < 0.7 and "end" not in next(iter(steps[-1].values())):
            steps.append({self.name(): {"end": f"=[{', '.join(self._state)}]"}})
        while self._unreachable(steps[:-1]):
            steps.pop()
        document: Body = {
            "holdfast": "definition/1",
            "name": name,
            "version": 1,
            "state": {name: {"default": at} for at, name in enumerate(state)},
            "steps": steps,
        }
        document |= {"tasks": self._tasks} if self._tasks else {}
        return document | ({"reference": "=start.at"} if source.random() < 0.5 else {})

    def _unreachable(self, nodes: list[Body]) -> bool:
        return any(_stops(node) for node in nodes)

    def name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def rarely(self, chance: float) -> bool:
        """For what only rich cases have."""
        return self._rich and self._source.random() < chance

    def span(self, place: _Place | None = None, most: float = 90.0) -> str:
        """A time of its own. Iterations at once begin together, so theirs depends on their index."""
        found = self._source.randrange(1_000_000, int(most * 1e6))
        if place is None or not place.at_once:
            return f"{found}us"
        more = "".join(f" + {index} * {PRIMES[at % len(PRIMES)]}" for at, index in enumerate(place.indexes))
        return f'=string({found}{more}) + "us"'

    def number(self) -> str:
        """An expression for a whole number."""
        one, other = self._source.choice(self._state), self._source.choice(self._state)
        return self._source.choice(
            (f"={one}", f"={one} + {self._source.randrange(9)}", f"=({one} + {other}) % 1000", f"={one} * 3 % 100")
        )

    def condition(self) -> str:
        one, other = self._source.choice(self._state), self._source.choice(self._state)
        return self._source.choice((f"={one} % 2 == 0", f"={one} < {other}", f"={one} != {other}", f"={one} >= 0"))

    def arguments(self, name: str, place: _Place) -> Body:
        """What a call is known by: its node, and the indexes that it is under."""
        indexes = "".join(f" + [string({index})]" for index in place.indexes)
        return {"at": name, "i": f"=start.i{indexes}"}

    # -- lists of nodes --------------------------------------------------------------------------------------------

    def nodes(self, place: _Place, most: int = 4, least: int = 1) -> list[Body]:
        found: list[Body] = []
        for _ in range(self._source.randint(least, max(least, most))):
            if self._left <= 0 and len(found) >= least:
                break
            found.extend(self.some(place))
            if found and _stops(found[-1]):
                break
        return found

    def timed_nodes(self, place: _Place, most: int = 3) -> list[Body]:
        """Nodes that begin with a call, so that nothing beside them happens at the same time."""
        self._left -= 1
        return [self.first(place), *self.nodes(place, most, least=0)]

    def first(self, place: _Place) -> Body:
        name = self.name()
        body = self.called(name, place) | self._kept(place) | self._handlers(name, place, chance=0.1)
        if self.rarely(0.3):
            body["retry"] = self._retry()
        if self.rarely(0.2):
            body["timeout"] = self.span(place)
        self._called += [name] * self._rich
        return {name: body}

    def some(self, place: _Place) -> list[Body]:
        """A node, or a few that belong together."""
        self._left -= 1
        if self._pure:
            kinds = [self.set, self.set, self.switch, self.fail, *([self.end] if place.may_end else [])]
            return self._source.choice(kinds if self._left > 0 else kinds[:2])(place)
        kinds: list[Callable[[_Place], list[Body]]] = (
            [self.call] * 6 + [self.set] * 4 + [self.sleep] * 2 + [self.switch] * 2 + [self.wait] * 2
        )
        if place.depth < 4 and self._left > 0:
            kinds += [self.block] * 3 + [self.fork] * 3 + [self.graph] * 2 + [self.pick] * 2 + [self.loop] * 3
            kinds += [self.counted] * 2 + [self.at_once] * 2
        kinds += [self.run] * 2 + [self.proceed, self.send, self.fail, self.compensate]
        kinds += [self.task] * 2 if place.timed and not place.indexes else []
        kinds += [self.end] if place.may_end and self._left < 5 else []
        return self._source.choice(kinds)(place)

    def _node(self, place: _Place, make: Callable[[str], Body], *, retry: bool = True, time: bool = True) -> list[Body]:
        name = self.name()
        body = make(name) | self._handlers(name, place)
        if self._source.random() < 0.07:
            body["when"] = self.condition()
        if time and self._source.random() < 0.15 and (place.timed or self._rich):
            body["timeout"] = self.span(place)
        if retry and self._source.random() < 0.15 and not self._pure:
            body["retry"] = self._retry()
        if "undo" in body and self.rarely(0.3):
            body |= {"retry": self._retry(), "timeout": self.span(place)}
        return [{name: _alive(body)}]

    def _retry(self) -> Body:
        policy: Body = {"max": self._source.randint(1, 3), "first": self.span(None, 5), "factor": 2.0, "jitter": "none"}
        policy["cap"] = "1000s"
        if self._source.random() < 0.3:
            policy["on"] = sorted(self._source.sample(("error", "transport", "timeout", "business"), 2))
        return policy

    def _handlers(self, name: str, place: _Place, chance: float = 0.2) -> Body:
        found = {}
        for kind in ("failure", "timeout", "success"):
            if self._source.random() < (chance if kind == "failure" else chance / 3):
                found[kind] = self.nodes(place, 2, least=0)
                if not self._pure and not (found[kind] and _stops(found[kind][-1])):
                    found[kind] += self._harsh(name, place)
        return {"on": found} if found else {}

    def _harsh(self, name: str, place: _Place) -> list[Body]:
        """What makes a handler harder: it undoes, or it fails."""
        if self.rarely(0.15) and self._called and not place.indexes:
            return [{self.name(): {"compensate": self._source.choice(self._called)}}]
        if self.rarely(0.15):
            return [{self.name(): {"raise": {"code": "HARSH"}}}]
        return []

    def _kept(self, place: _Place) -> Body:
        places = [each for each in place.writable if each != "reference"]
        return {"as": self._source.choice(places)} if places and self._source.random() < 0.7 else {}

    # -- verbs: calls and waits ------------------------------------------------------------------------------------

    def called(self, name: str, place: _Place) -> Body:
        verb, called = self._source.choice((("step", "call"), ("step", "call"), ("action", "act")))
        body: Body = {verb: f"laws.definitions.{called}", "with": self.arguments(name, place)}
        if self._source.random() < 0.3:
            body["with"]["n"] = self.number()
        if self._source.random() < 0.4:
            given = {"at": name, "i": "=[string(result)]"}
            body["undo"] = {"step": "laws.definitions.take_back", "with": given}
        return body

    def call(self, place: _Place) -> list[Body]:
        (node,) = self._node(place, lambda name: self.called(name, place) | self._kept(place))
        ((name, body),) = node.items()
        self._called.append(name)
        if self._source.random() < 0.1:
            limit = body.get("timeout")
            body["timeout"] = {"try": self.span(place, 60)} | ({} if limit is None else {"all": limit})
        return [node]

    def set(self, place: _Place) -> list[Body]:
        if not place.writable:
            return self.sleep(place)
        places = self._source.sample(place.writable, min(len(place.writable), self._source.randint(1, 2)))
        return self._node(
            place, lambda name: {"set": {each: self._value() for each in places}}, retry=False, time=False
        )

    def _value(self) -> Any:
        return self.number() if self._source.random() < 0.97 else f"=1 / ({self._state[0]} - {self._state[0]})"

    def sleep(self, place: _Place) -> list[Body]:
        return self._node(place, lambda name: {"sleep": self.span(place)})

    def wait(self, place: _Place) -> list[Body]:
        def make(name: str) -> Body:
            body: Body = {"wait": self._source.choice(SIGNALS)} | self._kept(place)
            key = self._source.choice(KEYS)
            body |= {} if key is None else {"key": key}
            return body | ({"match": "=payload % 2 == 0"} if self._source.random() < 0.3 else {})

        found = self._node(place, make)
        if (place.timed or self._rich) and self._source.random() < 0.6:
            next(iter(found[0].values())).setdefault("timeout", self.span(place))
        return found

    def task(self, place: _Place) -> list[Body]:
        def make(name: str) -> Body:
            declared: Body = {"title": f"Task of {name}", "for": {"groups": ["staff"]}}
            declared["show"] = {"at": name, "i": "=start.i"}
            declared["form"] = {"type": "object", "properties": {"n": {"type": "integer"}}}
            if self._source.random() < 0.4:
                declared["due"] = {"expire": self.span(None, 60)}
            self._tasks[name] = declared
            return {"task": name}

        return self._node(place, make)

    def run(self, place: _Place) -> list[Body]:
        called = self._source.choice((FUNCTION, *self._children, *self._children))

        def make(name: str) -> Body:
            arguments = self.arguments(name, place)
            arguments["i"] += f' + ["{name}"]'
            return {"run": called, "with": arguments} | (self._kept(place) if called == FUNCTION else {})

        return self._node(place, make)

    def proceed(self, place: _Place) -> list[Body]:
        target = {"continue": CONTINUED}
        return self._node(place, lambda name: target | {"with": self.arguments(name, place)}, retry=False, time=False)

    def send(self, place: _Place) -> list[Body]:
        def make(name: str) -> Body:
            return {"send": {"to": "other", "signal": "hello", "value": self.arguments(name, place)}}

        return self._node(place, make, retry=False, time=False)

    def fail(self, place: _Place) -> list[Body]:
        if self._source.random() < 0.6:
            return self.set(place)
        name = self.name()
        body: Body = {"raise": {"code": self._source.choice(("LOW", "HIGH"))}, "when": self.condition()}
        return [{name: _alive(body | self._handlers(name, place))}]

    def end(self, place: _Place) -> list[Body]:
        return [{self.name(): {"end": {"total": self.number()}, "when": self.condition()}}]

    def compensate(self, place: _Place) -> list[Body]:
        if not self._called or place.indexes:
            return self.set(place)
        target = self._source.choice(self._called)
        return self._node(place, lambda name: {"compensate": target}, retry=False, time=False)

    # -- verbs: blocks ---------------------------------------------------------------------------------------------

    def _inside(self, place: _Place, **changes: Any) -> _Place:
        return _Place(**{**vars(place), "depth": place.depth + 1, **changes})

    def block(self, place: _Place) -> list[Body]:
        inner = self._inside(place)
        return self._node(place, lambda name: {"do": self.nodes(inner)})

    def switch(self, place: _Place) -> list[Body]:
        inner = self._inside(place)

        def make(name: str) -> Body:
            cases: list[Body] = [
                {"when": self.condition(), "do": self.nodes(inner, 2, least=0)}
                for _ in range(self._source.randint(1, 2))
            ]
            return {"switch": cases + ([{"else": self.nodes(inner, 2)}] if self._source.random() < 0.5 else [])}

        return self._node(place, make)

    def _shares(self, place: _Place, count: int) -> list[tuple[str, ...]]:
        places = list(place.writable)
        self._source.shuffle(places)
        return [tuple(places[at::count]) for at in range(count)]

    def fork(self, place: _Place) -> list[Body]:
        count = self._source.randint(2, 3)

        def make(name: str) -> Body:
            shares = self._shares(place, count)
            branches = {
                f"{name}{letter}": self.timed_nodes(self._inside(place, writable=share, may_end=False))
                for letter, share in zip("abc", shares, strict=False)
            }
            return {
                "fork": branches,
                "join": self._source.choice(("all", "all", "any", self._source.randint(1, count))),
            }

        return self._node(place, make)

    def pick(self, place: _Place) -> list[Body]:
        def make(name: str) -> Body:
            options = {}
            for _ in range(self._source.randint(2, 3)):
                option = self.name()
                inner = self._inside(place)
                trigger = self._trigger(option, inner)
                if self.rarely(0.15):
                    trigger["when"] = self.condition()
                if self.rarely(0.15):
                    trigger |= self._handlers(option, inner, chance=0.5)
                options[option] = _alive(trigger) | {"do": self.nodes(inner, 2, least=0)}
            return {"pick": options}

        return self._node(place, make)

    def _trigger(self, option: str, place: _Place) -> Body:
        kind = self._source.choice(("sleep", "wait", "call"))
        if kind == "sleep":
            return {"sleep": self.span(place)}
        if kind == "wait":
            key = self._source.choice(KEYS) if self._rich else None
            body: Body = {"wait": self._source.choice(SIGNALS)} | ({} if key is None else {"key": key})
            body |= {"match": "=payload % 2 == 1"} if self.rarely(0.3) else {}
            return body | self._kept(place)
        return self.called(option, place) | self._kept(place)

    def graph(self, place: _Place) -> list[Body]:
        count = self._source.randint(2, 4)

        def make(name: str) -> Body:
            nodes: Body = {}
            for share in self._shares(place, count):
                inner = self._inside(place, writable=share, may_end=False)
                node = self.first(inner) if self._source.random() < 0.6 else self._composed(inner)
                ((each, body),) = node.items()
                for word in ("needs", "after"):
                    if nodes and self._source.random() < 0.5:
                        body[word] = self._source.sample(sorted(nodes), self._source.randint(1, min(2, len(nodes))))
                if self._source.random() < 0.15:
                    body["when"] = self.condition()
                nodes[each] = body
            return {"graph": nodes}

        return self._node(place, make)

    def _composed(self, place: _Place) -> Body:
        name = self.name()
        return {name: {"do": self.timed_nodes(place)} | self._handlers(name, place)}

    # -- verbs: loops ----------------------------------------------------------------------------------------------

    def loop(self, place: _Place) -> list[Body]:
        """Over a list, or a number of times, one after the other."""
        number = self._names
        inner = self._inside(place, indexes=(*place.indexes, f"k{number}"))

        def make(name: str) -> Body:
            body: Body = {"repeat": {"index": f"k{number}"}}
            if self._source.random() < 0.5:
                body["repeat"] |= {"over": [1, 2, 3][: self._source.randint(1, 3)], "item": f"x{number}"}
            else:
                body["repeat"]["times"] = self._source.randint(0, 3)
            body["do"] = self.nodes(inner, 3)
            return body | self._gives(place, inner)

        return self._node(place, make)

    def _gives(self, place: _Place, inner: _Place) -> Body:
        if self._source.random() < 0.5:
            return {}
        return {"gives": f"={inner.indexes[-1]}"}

    def counted(self, place: _Place) -> list[Body]:
        """While or until, over a counter that nothing else writes."""
        places = [each for each in place.writable if each.startswith("state.")]
        if not places:
            return self.loop(place)
        counter, number = self._source.choice(places), self._names
        rest = tuple(each for each in place.writable if each != counter)
        inner = self._inside(place, writable=rest, indexes=(*place.indexes, f"k{number}"))
        before = {self.name(): {"set": {counter: 0}}}

        def make(name: str) -> Body:
            limit = self._source.randint(1, 3)
            loop: Body = {"index": f"k{number}"}
            if self._source.random() < 0.5:
                loop["while"] = f"={counter} < {limit}"
            else:
                loop["until"] = f"={counter} >= {limit}"
            if self._source.random() < 0.3:
                loop["most"] = self._source.randint(1, 4)
            count = {self.name(): {"set": {counter: f"={counter} + 1"}}}
            return {"repeat": loop, "do": [count, *self.nodes(inner, 3)]}

        return [before, *self._node(place, make)]

    def at_once(self, place: _Place) -> list[Body]:
        number = self._names
        local = f"local.p{number}"
        indexes = (*place.indexes, f"k{number}")
        inner = self._inside(place, writable=(local,), indexes=indexes, may_end=False, timed=False, at_once=True)

        def make(name: str) -> Body:
            loop: Body = {"index": f"k{number}", "times": self._source.randint(0, 5)}
            loop["at_once"] = self._source.randint(1, 3)
            if self._source.random() < 0.5:
                loop["errors"] = "keep"
            begin = {self.name(): {"set": {local: 7}}}
            return {"repeat": loop, "do": [begin, *self.timed_nodes(inner)], "gives": f"={local}"}

        return self._node(place, make)


def _stops(node: Body) -> bool:
    """Whether nothing behind the node is ever reached."""
    ((_, body),) = node.items()
    if "when" in body:
        return False
    return "end" in body or "raise" in body
