"""Nodes of a document, read into the model: each has one verb, the words that go with it, and those of every node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.expressions.lexer import IDENTIFIER
from holdfast.expressions.syntax import RESERVED, WORDS
from holdfast.journal.error_classes import CLASSES
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.faults import FaultList, Trail, shown
from holdfast.programs.definition.compiler.shape_reader import NAME, ShapeReader
from holdfast.programs.definition.compiler.words import (
    FIXED_ROOTS,
    GRAPH_WORDS,
    NODE_WORDS,
    TRANSPORT_WORDS,
    VERB_WORDS,
)
from holdfast.programs.definition.interpreter.templates import ROOTS

DEEPEST: int = 40
"""How deep blocks may stand inside each other."""

Body = Mapping[str, Any]


class NodeReader(ShapeReader):
    """Reads nodes. ``path`` is the way to the present one, ``depth`` how many blocks are around it."""

    def __init__(self, faults: FaultList, path: tuple[str, ...] = (), depth: int = 0) -> None:
        super().__init__(faults, path[-1] if path else "")
        self._path = path
        self._depth = depth

    def nodes(self, data: Any, trail: Trail, branch: str = "") -> m.Nodes:
        """A list of nodes: each is a map of its name to its body."""
        if not isinstance(data, list):
            self.wrong(trail, f"this is a list of nodes, each `- name: {{verb: …}}`, not {shown(data)}")
            return ()
        if self._depth > DEEPEST:
            self.wrong(trail, f"blocks stand more than {DEEPEST} deep inside each other: make a child workflow of some")
            return ()
        found = [self._listed(item, (*trail, at), branch) for at, item in enumerate(data)]
        return tuple(node for node in found if node is not None)

    def _listed(self, item: Any, trail: Trail, branch: str) -> m.Node | None:
        if not isinstance(item, Mapping) or len(item) != 1:
            self.wrong(trail, f"a node is a map with one member, its name: `- name: {{verb: …}}`, not {shown(item)}")
            return None
        (name, body), *_ = item.items()
        return self.node_of(name, body, (*trail, name), (), branch)

    def node_of(
        self, name: Any, body: Any, trail: Trail, more: tuple[str, ...] = (), branch: str = ""
    ) -> m.Node | None:
        """A node by its name and body; ``more`` are words that its place allows."""
        if not isinstance(name, str) or not NAME.fullmatch(name) or "." in name:
            self.wrong(
                trail, f"a node's name has letters, digits, `_` and `-`, and begins with a letter, not {shown(name)}"
            )
            return None
        path = (*self._path, branch, name) if branch else (*self._path, name)
        self.faults.place(name, trail, path)
        return NodeReader(self.faults, path, self._depth + 1)._node(name, body, trail, more)

    def _node(self, name: str, body: Any, trail: Trail, more: tuple[str, ...]) -> m.Node | None:
        body = self.mapping(body, trail)
        verbs = [word for word in body if word in VERB_WORDS]
        if "repeat" in verbs and "do" in verbs:
            verbs.remove("do")
        if len(verbs) != 1:
            self._complain_of_verbs(body, verbs, trail, more)
            return None
        (word,) = verbs
        self.words(body, trail, (word, *VERB_WORDS[word], *NODE_WORDS, *more))
        verb = self._verb(word, body, trail)
        if verb is None:
            return None
        return m.Node(
            name=name,
            verb=verb,
            title=self.text(body, "title", trail),
            when=self.condition(body.get("when"), (*trail, "when")),
            into=self.path(body.get("as"), (*trail, "as")),
            retry=self._retry(body.get("retry"), (*trail, "retry")),
            timeout=self._timeout(body.get("timeout"), (*trail, "timeout")),
            on=self._handlers(body.get("on"), (*trail, "on")),
            undo=self._undo(body.get("undo"), (*trail, "undo")),
            needs=self.names(body.get("needs"), (*trail, "needs")),
            after=self.names(body.get("after"), (*trail, "after")),
        )

    def _complain_of_verbs(self, body: Body, verbs: list[str], trail: Trail, more: tuple[str, ...]) -> None:
        if verbs:
            self.wrong(trail, f"a node has one verb, and this one has {', '.join(verbs)}: split it")
            return
        unknown = [word for word in body if word not in (*NODE_WORDS, *GRAPH_WORDS, *more)]
        hint = self.faults.nearest(unknown[0], VERB_WORDS) if unknown else ""
        self.wrong(trail, f"a node has a verb ({', '.join(VERB_WORDS)}), and this one has none{hint}")

    def _verb(self, word: str, body: Body, trail: Trail) -> m.Verb | None:
        if word in TRANSPORT_WORDS:
            return m.TransportVerb(verb=word, request=self._request(body[word], (*trail, word)))
        read: Callable[[Any, Body, Trail], m.Verb | None] = getattr(self, f"_{word}_verb")
        return read(body[word], body, trail)

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def _set_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        found = self.mapping(data, (*trail, "set"))
        places = {path: found[name] for name in found if (path := self.path(name, (*trail, "set", name))) is not None}
        return m.SetVerb(values=tuple(sorted(places.items(), key=lambda item: item[0])))

    def _step_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        return m.CallVerb(kind="step", name=self._called(data, (*trail, "step")), arguments=body.get("with", {}))

    def _action_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        return m.CallVerb(kind="action", name=self._called(data, (*trail, "action")), arguments=body.get("with", {}))

    def _task_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        return m.TaskVerb(task=self._called(data, (*trail, "task")), arguments=body.get("with", {}))

    def _compensate_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        return m.CompensateVerb(node=self._called(data, (*trail, "compensate")).rpartition(".")[2])

    def _wait_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        match = self.condition(body.get("match"), (*trail, "match"))
        return m.WaitVerb(signal=self._called(data, (*trail, "wait")), key=body.get("key"), match=match)

    def _transport_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb | None:
        """A transport of a package, by its name: ``transport: {sap: {…}}``."""
        found = self.mapping(data, (*trail, "transport"))
        if len(found) != 1:
            self.wrong((*trail, "transport"), "this is a map with one member, the transport's name, and its request")
            return None
        ((name, request),) = found.items()
        return m.TransportVerb(verb=str(name), request=self._request(request, (*trail, "transport", name)))

    def _request(self, data: Any, trail: Trail) -> Any:
        """A request in the words of its transport, or an expression for one."""
        if isinstance(data, str) and data.startswith("=") and not data.startswith("=="):
            return data
        return dict(self.mapping(data, trail))

    def _called(self, data: Any, trail: Trail) -> str:
        if isinstance(data, str) and data and not data.startswith("=") and len(data) <= 200:
            return data
        self.wrong(trail, f"this is a name, not {shown(data)}")
        return "unnamed"

    def _sleep_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        if isinstance(data, Mapping):
            self.words(data, (*trail, "sleep"), ("until",))
            return m.SleepVerb(at=data.get("until"))
        span = self.span(data, (*trail, "sleep"))
        return m.SleepVerb(span=0 if span is None and data is not None else span)

    def _switch_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        if not isinstance(data, list):
            self.wrong((*trail, "switch"), f"a switch is a list of cases, not {shown(data)}")
            return m.SwitchVerb(cases=())
        if not data:
            self.wrong((*trail, "switch"), "a switch has at least one case: `{when: =…, do: […]}`")
        cases = [self._case(each, (*trail, "switch", at)) for at, each in enumerate(data)]
        return m.SwitchVerb(cases=tuple(case for case in cases if case is not None))

    def _case(self, data: Any, trail: Trail) -> m.Case | None:
        found = self.mapping(data, trail)
        if "else" in found:
            self.words(found, trail, ("else",))
            return m.Case(when=None, do=self.nodes(found["else"], (*trail, "else")))
        self.words(found, trail, ("when", "do"))
        if "when" not in found:
            self.wrong(trail, "a case has a condition, `when: =…`, or is `else: […]`")
        when = self.condition(found.get("when"), (*trail, "when"))
        do = self.nodes(found.get("do", []), (*trail, "do"))
        return None if when is None else m.Case(when=when, do=do)

    def _repeat_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        place = (*trail, "repeat")
        found = self.mapping(data, place)
        self.words(found, place, ("over", "times", "while", "until", "most", "item", "index", "at_once", "errors"))
        if len(found.keys() & {"over", "times", "while", "until"}) != 1:
            self.wrong(place, "a repeat has one of over, times, while and until")
        return m.RepeatVerb(
            do=self.nodes(body.get("do"), (*trail, "do")),
            over=found.get("over"),
            times=found.get("times"),
            while_=self.condition(found.get("while"), (*place, "while")),
            until=self.condition(found.get("until"), (*place, "until")),
            most=self.whole(found.get("most"), (*place, "most"), 1, "the limit of iterations"),
            item=self._bound(found, "item", place),
            index=self._bound(found, "index", place),
            at_once=self.whole(found.get("at_once"), (*place, "at_once"), 1, "how many iterations run at once"),
            keep_errors=self.choice(found, "errors", place, ("fail", "keep"), "fail") == "keep",
            gives=body.get("gives"),
        )

    def _bound(self, data: Body, name: str, trail: Trail) -> str:
        found = data.get(name, name)
        if not isinstance(found, str) or not IDENTIFIER.fullmatch(found) or found in RESERVED | WORDS:
            self.wrong((*trail, name), f"this is a name for expressions, such as line, not {shown(found)}")
        elif found in ROOTS and found not in ("item", "index"):
            self.wrong((*trail, name), f"expressions have a {found!r} already: give it another name, such as line")
        else:
            return found
        return name

    def _fork_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        found = self.mapping(data, (*trail, "fork"))
        for name in found:
            if not NAME.fullmatch(name) or "." in name:
                self.wrong((*trail, "fork", name), f"a branch is named with letters, digits, `_` and `-`, not {name!r}")
        branches = tuple(
            m.Branch(name=name, do=self.nodes(found[name], (*trail, "fork", name), name))
            for name in self._by_name(found)
        )
        join = self._join(body.get("join", "all"), len(branches), (*trail, "join"))
        return m.ForkVerb(branches=branches, join=join, gives=body.get("gives"))

    def _by_name(self, found: Body) -> list[str]:
        """The names in the order in which a run has them; that of the author is noted."""
        names = sorted(found)
        if names != list(found):
            self.faults.order[self.node] = tuple(found)
        return names

    def _join(self, data: Any, count: int, trail: Trail) -> int | None:
        if data == "all":
            return None
        if data == "any":
            return 1
        if type(data) is int and 1 <= data <= count:
            return data
        self.wrong(trail, f"join is all, any, or a number from 1 to {count}, not {shown(data)}")
        return None

    def _pick_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        found = self.mapping(data, (*trail, "pick"))
        options = [self._option(name, found[name], (*trail, "pick", name)) for name in self._by_name(found)]
        return m.PickVerb(options=tuple(option for option in options if option is not None))

    def _option(self, name: Any, data: Any, trail: Trail) -> m.Option | None:
        body = self.mapping(data, trail)
        trigger = self.node_of(name, {word: body[word] for word in body if word != "do"}, trail, branch=name)
        do = self.nodes(body.get("do", []), (*trail, "do"), name)
        return None if trigger is None else m.Option(trigger=trigger, do=do)

    def _graph_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        found = self.mapping(data, (*trail, "graph"))
        place = (*trail, "graph")
        nodes = [self.node_of(name, found[name], (*place, name), GRAPH_WORDS) for name in self._by_name(found)]
        return m.GraphVerb(nodes=tuple(node for node in nodes if node is not None))

    def _do_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        place = (*trail, "let")
        let = self.mapping(body.get("let") or {}, place)
        for name in let:
            if not str(name).isidentifier() or name in FIXED_ROOTS:
                self.wrong((*place, name), f"this is a name for expressions that is no root, not {shown(name)}")
        return m.BlockVerb(do=self.nodes(data, (*trail, "do")), let={name: let[name] for name in sorted(let)})

    def _check_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        return m.CheckVerb(value=data, schema=dict(self.mapping(body.get("schema"), (*trail, "schema"))))

    def _run_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        workflow, version, digest = self._workflow(data, (*trail, "run"))
        return m.RunVerb(workflow=workflow, arguments=body.get("with", {}), version=version, digest=digest)

    def _continue_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        workflow, version, digest = self._workflow(data, (*trail, "continue"))
        arguments, id = body.get("with", {}), body.get("id")
        return m.ContinueVerb(workflow=workflow, arguments=arguments, id=id, version=version, digest=digest)

    def _workflow(self, data: Any, trail: Trail) -> tuple[str, int | None, str]:
        """A workflow by name; in a canonical document with the version and digest that it was resolved to."""
        if not isinstance(data, Mapping):
            return self._called(data, trail), None, ""
        self.words(data, trail, ("name", "version", "digest"))
        version = self.whole(data.get("version"), (*trail, "version"), 1, "a version")
        return self._called(data.get("name"), trail), version, self.text(data, "digest", trail)

    def _send_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        place = (*trail, "send")
        found = self.mapping(data, place)
        self.words(found, place, ("to", "signal", "key", "value"))
        if found.get("to") is None:
            self.wrong(place, "a signal is sent to a run: `send: {to: =start.parent, signal: done}`")
        signal = self._called(found.get("signal"), (*place, "signal"))
        return m.SendVerb(to=found.get("to"), signal=signal, key=found.get("key"), value=found.get("value"))

    def _end_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        return m.EndVerb(result=data)

    def _raise_verb(self, data: Any, body: Body, trail: Trail) -> m.Verb:
        place = (*trail, "raise")
        found: Body = {"code": data} if isinstance(data, str) else self.mapping(data, place)
        self.words(found, place, ("code", "message", "details"))
        if "code" not in found:
            self.wrong(place, "an error has a code: `raise: {code: SLOW, message: …}`")
        return m.RaiseVerb(code=found.get("code", ""), message=found.get("message", ""), details=found.get("details"))

    # -- what every node may have --------------------------------------------------------------------------------------

    def _retry(self, data: Any, trail: Trail) -> str | m.NodeRetry | None:
        if data is None or isinstance(data, str):
            return data
        return self.retry_policy(data, trail)

    def retry_policy(self, data: Any, trail: Trail) -> m.NodeRetry:
        """A retry's members."""
        found = self.mapping(data, trail)
        self.words(found, trail, ("max", "first", "factor", "cap", "jitter", "on"))
        usual = m.NodeRetry()
        return m.NodeRetry(
            max=self.whole(found.get("max"), (*trail, "max"), 1, "the number of attempts") or usual.max,
            first=self.fixed_span(found.get("first"), (*trail, "first"), usual.first),
            factor=self._number(found.get("factor", usual.factor), (*trail, "factor"), 1.0, 100.0),
            cap=self.fixed_span(found.get("cap"), (*trail, "cap"), usual.cap),
            jitter=self._jitter(found.get("jitter", usual.jitter), (*trail, "jitter")),
            on=self._classes(found.get("on"), (*trail, "on")) or usual.on,
        )

    def _jitter(self, data: Any, trail: Trail) -> float:
        known = {"full": 1.0, "none": 0.0}
        return known[data] if isinstance(data, str) and data in known else self._number(data, trail, 0.0, 1.0)

    def _number(self, data: Any, trail: Trail, least: float, most: float) -> float:
        if isinstance(data, int | float) and not isinstance(data, bool) and least <= data <= most:
            return float(data)
        self.wrong(trail, f"this is a number from {least:g} to {most:g}, not {shown(data)}")
        return least

    def _classes(self, data: Any, trail: Trail) -> tuple[str, ...]:
        found = self.names(data, trail)
        for name in found:
            if name not in CLASSES:
                self.faults.unknown(trail, "class of errors", name, CLASSES, self.node)
        return found

    def _timeout(self, data: Any, trail: Trail) -> m.Timeout | None:
        if data is None:
            return None
        if not isinstance(data, Mapping):
            return m.Timeout(whole=self.span(data, trail))
        self.words(data, trail, ("try", "all", "at"))
        if not data:
            self.wrong(trail, "a time-out says how long: `timeout: 1h`, or `{try: 30s, all: 1h}`, or `{at: =…}`")
        attempt, whole = self.span(data.get("try"), (*trail, "try")), self.span(data.get("all"), (*trail, "all"))
        return m.Timeout(attempt=attempt, whole=whole, at=data.get("at"))

    def _handlers(self, data: Any, trail: Trail) -> m.Handlers:
        if data is None:
            return m.Handlers()
        found = self.mapping(data, trail)
        self.words(found, trail, ("success", "failure", "timeout"))
        return m.Handlers(
            **{
                name: self.nodes(found[name], (*trail, name), f"on.{name}")
                for name in found.keys() & {"success", "failure", "timeout"}
            }
        )

    def _undo(self, data: Any, trail: Trail) -> m.UndoCall | None:
        if data is None:
            return None
        if isinstance(data, str):
            return m.UndoCall(verb=m.CallVerb(kind="action", name=data), inherits=True)
        found = self.mapping(data, trail)
        words = [word for word in found if word in ("step", "action", "transport", *TRANSPORT_WORDS)]
        if len(words) != 1:
            self.wrong(trail, "an undo is the name of a step or action, or has one of step, action, http and graphql")
            return None
        (word,) = words
        self.words(found, trail, (word, *VERB_WORDS[word]))
        verb = self._verb(word, found, trail)
        inherits = isinstance(verb, m.CallVerb) and "with" not in found
        return m.UndoCall(verb=verb, inherits=inherits) if isinstance(verb, m.CallVerb | m.TransportVerb) else None
