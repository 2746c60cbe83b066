"""The plain reference interpreter: a definition's document played by asyncio on a virtual clock, from the rules alone.

Every construct is the obvious code: a list of nodes is a loop, a branch is a task, a time-out cancels a task, and what
is cancelled is awaited and then undone, newest first.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from holdfast.programs.definition.spans import read_span
from holdfast.testing import run_virtually
from tests.laws.definitions.grow import END_OF_TIME, Case
from tests.laws.definitions.memory import Failed, Line, Memory, Scope
from tests.laws.definitions.outside import ERRORS, GIVEN_UP, Fate, Outside

T = TypeVar("T")
Body = dict[str, Any]


class Ended(Exception):
    """An ``end`` was reached."""

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self.result = result


@dataclass(frozen=True)
class Ending:
    """How a run ended, and what it left."""

    how: str
    what: Any
    state: dict[str, Any]
    reference: Any


@dataclass
class Deed:
    """A call that succeeded and can be undone."""

    scope: Scope
    nodes: tuple[str, ...]
    what: str
    arguments: Any


@dataclass
class Mail:
    """Signals by name and key, first in, first out; and those who wait, in the order in which they began to."""

    waiting: list[tuple[str, Callable[[Any], bool], asyncio.Future[Any]]]
    kept: list[tuple[str, Any]]

    def arrive(self, name: str, payload: Any) -> None:
        for each in self.waiting:
            wanted, matches, future = each
            if wanted == name and not future.done() and matches(payload):
                self.waiting.remove(each)
                future.set_result(payload)
                return
        self.kept.append((name, payload))

    async def receive(self, name: str, matches: Callable[[Any], bool]) -> Any:
        for each in self.kept:
            if each[0] == name and matches(each[1]):
                self.kept.remove(each)
                return each[1]
        entry = (name, matches, asyncio.get_running_loop().create_future())
        self.waiting.append(entry)
        try:
            return await entry[2]
        finally:
            if entry in self.waiting:
                self.waiting.remove(entry)


class Reference:
    """One run of a document. ``others`` are the definitions that it may run."""

    def __init__(self, document: Body, others: dict[str, Body], outside: Outside, start: Any) -> None:
        self.document, self.others, self.outside, self.start = document, others, outside, start
        self.mail = Mail([], [])
        self.deeds: list[Deed] = []
        state = {name: each["default"] for name, each in document["state"].items() if "default" in each}
        self.memory = Memory(copy.deepcopy(state))
        self.everything = Scope()
        self.failures = 0  # of undos
        self.unheard: list[Scope] = []  # where an undo failed for someone who was cancelled meanwhile
        self.parked = asyncio.Event()

    @property
    def now(self) -> int:
        return round(asyncio.get_running_loop().time() * 1e6)

    async def play(self) -> Ending:
        """Play to the end. Cancelling this cancels the run, which undoes before it ends."""
        line = Line(self.memory, self.everything, {"start": self.start})
        if "reference" in self.document:
            self.memory.write("reference", line.value(self.document["reference"]))
        body = asyncio.ensure_future(self.nodes(self.document["steps"], line))
        park = asyncio.ensure_future(self.parked.wait())
        try:
            await asyncio.wait([body, park], return_when=asyncio.FIRST_COMPLETED)
            how, what = await self._outcome(body)
        except asyncio.CancelledError:
            how, what = "cancelled", None
            await stopped([body])
        park.cancel()
        if how in ("failed", "cancelled"):
            with contextlib.suppress(asyncio.CancelledError):  # no cancellation reaches what is being undone
                await unstoppable(self.undo(lambda deed: True))
            if self.failures and how == "cancelled":
                how, what = "failed", {"class": "error", "code": "StepFailed"}
        return Ending(how, what, self.memory.values["state"], self.memory.values["reference"])

    async def _outcome(self, body: asyncio.Future[None]) -> tuple[str, Any]:
        if self.parked.is_set():
            return "parked", {"class": "expression", "code": "EXPRESSION"}
        try:
            body.result()
        except Ended as end:
            return "completed", end.result
        except Failed as error:
            return "failed", error.shown
        return "completed", None

    async def _begin(self, called: str, attempt: int = 1) -> Fate:
        """An attempt begins. A run that is parked begins none."""
        if self.parked.is_set():
            await asyncio.get_running_loop().create_future()
        return self.outside.begin(self.now, called, attempt)

    # -- nodes -----------------------------------------------------------------------------------------------------

    async def nodes(self, nodes: list[Body], line: Line) -> None:
        for node in nodes:
            ((name, body),) = node.items()
            await self.node(name, body, line)

    async def node(self, name: str, body: Body, line: Line) -> bool:
        """Do a node; False where its condition says that it is not done."""
        caught = "failure" in body.get("on", {})
        try:
            if "when" in body and not line.value(body["when"]):
                return False
            result = await self._limited(name, body, replace(line, catches=lambda: True) if caught else line)
        except Failed as error:
            if parks(error) and not caught and not line.catches():
                self.parked.set()
                await asyncio.get_running_loop().create_future()
            handlers = body.get("on", {})
            handler = handlers.get("timeout") if error.kind == "timeout" else None
            handler = handlers.get("failure") if handler is None else handler
            if handler is None:
                raise
            bound = {**line.bound, "error": error.shown}
            await self.nodes(handler, replace(line, bound=bound, inside=(*line.inside, name)))
            return True
        if "as" in body:
            line.memory.write(body["as"], result)
        await self.nodes(body.get("on", {}).get("success", []), replace(line, inside=(*line.inside, name)))
        return True

    async def _limited(self, name: str, body: Body, line: Line) -> Any:
        """The node with all its attempts, within its time."""
        limit = body.get("timeout")
        whole = limit.get("all") if isinstance(limit, dict) else limit
        if whole is None:
            return await self._tried(name, body, line)
        inner = replace(line, scope=Scope(line.scope))
        task = asyncio.ensure_future(self._tried(name, body, inner))
        done = await waited([task], read_span(line.value(whole)) / 1e6)
        if done:
            return task.result()
        await self._give_up([(task, inner.scope)], line)
        raise Failed("timeout", "TIMEOUT")

    async def _tried(self, name: str, body: Body, line: Line) -> Any:
        """All attempts."""
        policy = body.get("retry", {"max": 1})
        names: list[str] = []
        for attempt in range(1, policy["max"] + 1):
            try:
                return await self._attempt(name, body, line, names, attempt)
            except Failed as error:
                if attempt == policy["max"] or error.kind not in policy.get("on", [error.kind]) or parks(error):
                    raise
                await asyncio.sleep(read_span(policy["first"]) * policy["factor"] ** (attempt - 1) / 1e6)
        raise AssertionError

    async def _attempt(self, name: str, body: Body, line: Line, names: list[str], attempt: int) -> Any:
        for verb in ("step", "action"):
            if verb in body:
                arguments = line.value(body["with"])
                await moment()
                if not names:
                    names.append(self.outside.name(body[verb].rpartition(".")[2], arguments))
                call = self._call(name, body, line, names[0], attempt)
                return await (unstoppable(call) if "undo" in body else call)
        (verb,) = [verb for verb in VERBS if verb in body and not (verb == "do" and "repeat" in body)]
        return await VERBS[verb](self, name, body, replace(line, inside=(*line.inside, name)))

    async def _call(self, name: str, body: Body, line: Line, called: str, attempt: int) -> Any:
        """One attempt of a call. One that can be undone is awaited even where it is cancelled: it may succeed."""
        limit = body.get("timeout")
        most = limit.get("try") if isinstance(limit, dict) else None
        judged: Fate | None = None
        while judged is None:
            fate = await self._begin(called, attempt)
            if most is not None and fate.duration > read_span(line.value(most)):
                fate = replace(fate, duration=read_span(line.value(most)), error="timeout")
            rest = asyncio.ensure_future(asyncio.sleep(fate.duration / 1e6))
            await rest
            judged = self.outside.judge(self.now, called, fate, noted=not self.parked.is_set())
            called = f"{called} again"
        if "undo" in body:
            self._done(name, body, line, judged)
        if judged.error == GIVEN_UP:
            raise Failed("authorisation", "ApprovalRejected")
        if judged.error:
            raise Failed(judged.error, ERRORS[judged.error].__name__)
        return judged.value

    def _done(self, name: str, body: Body, line: Line, fate: Any) -> None:
        if not fate.error:
            arguments = line.value(body["undo"]["with"], result=fate.value)
            self.deeds.append(Deed(line.scope, (*line.inside, name), "take_back", arguments))

    # -- cancelling and undoing ------------------------------------------------------------------------------------

    async def _give_up(self, parts: list[tuple[asyncio.Future[Any], Scope]], line: Line) -> int:
        """Cancel, wait for the end of it, and undo what was done there. Gives how much could not be undone.

        Whoever cancels this meanwhile undoes it, too, with all that was done since: newest first.
        """
        await stopped([task for task, _ in parts])
        return await self._settled(self._undone(parts), line)

    async def _undone(self, parts: list[tuple[asyncio.Future[Any], Scope]]) -> int:
        failures = await self.undo(lambda deed: any(deed.scope.within(scope) for _, scope in parts))
        inside = [each for each in self.unheard if any(each.within(scope) for _, scope in parts)]
        self.unheard = [each for each in self.unheard if each not in inside]
        return failures + len(inside)

    async def undo(self, chosen: Callable[[Deed], bool]) -> int:
        """Undo, newest first. One that fails does not stop the others. Gives how many failed."""
        failures = 0
        for deed in [each for each in reversed(self.deeds) if chosen(each)]:
            if deed in self.deeds:
                self.deeds.remove(deed)
                fate = await self._begin(self.outside.name(deed.what, deed.arguments))
                await asyncio.sleep(fate.duration / 1e6)
                failures += bool(fate.error)
        self.failures += failures
        return failures

    async def _settled(self, undoing: Coroutine[Any, Any, int], line: Line) -> int:
        """Undo to the end, and give how many failed. Where it is cancelled, that is for whoever cancels it."""
        task = asyncio.ensure_future(undoing)
        try:
            await unstoppable(_all([task]))
        except asyncio.CancelledError:
            self.unheard += [line.scope] * bool(task.result())
            raise
        return task.result()

    # -- verbs: plain ----------------------------------------------------------------------------------------------

    async def _set(self, name: str, body: Body, line: Line) -> None:
        values = {place: line.value(value) for place, value in body["set"].items()}
        for place, value in values.items():
            line.memory.write(place, value)

    async def _sleep(self, name: str, body: Body, line: Line) -> None:
        await asyncio.sleep(read_span(line.value(body["sleep"])) / 1e6)

    async def _wait(self, name: str, body: Body, line: Line) -> Any:
        key = line.value(body.get("key"))
        address = body["wait"] if key is None else f"{body['wait']}#{key}"
        matches = body.get("match", True)
        return await self.mail.receive(address, lambda payload: bool(line.value(matches, payload=payload)))

    async def _task(self, name: str, body: Body, line: Line) -> Any:
        await moment()
        fate = await self._begin(self.outside.name("task", {"at": body["task"], "i": self.start["i"]}))
        expire = self.document["tasks"][body["task"]].get("due", {}).get("expire")
        if expire is not None and read_span(expire) < fate.duration:
            await asyncio.sleep(read_span(expire) / 1e6)
            raise Failed("timeout", "TaskExpired")
        await asyncio.sleep(fate.duration / 1e6)
        return {"n": fate.value}

    async def _continue(self, name: str, body: Body, line: Line) -> None:
        await self._begin(self.outside.name("continue", line.value(body["with"])))

    async def _send(self, name: str, body: Body, line: Line) -> None:
        sent = line.value(body["send"])
        await self._begin(self.outside.name("send", sent["value"]))

    async def _end(self, name: str, body: Body, line: Line) -> None:
        raise Ended(line.value(body["end"]))

    async def _raise(self, name: str, body: Body, line: Line) -> None:
        raise Failed("business", line.value(body["raise"]["code"]))

    async def _compensate(self, name: str, body: Body, line: Line) -> None:
        await _or_fail(self._settled(self.undo(lambda deed: body["compensate"] in deed.nodes), line))

    async def _run(self, name: str, body: Body, line: Line) -> Any:
        arguments = line.value(body["with"])
        await moment()
        if body["run"] not in self.others:
            return await self._function(self.outside.name("run", arguments))
        child = Reference(self.others[body["run"]], self.others, self.outside, arguments)
        task = asyncio.ensure_future(self._ended(child))
        (ending,) = [each.result() for each in await waited([task])]
        if ending.how != "completed":
            raise Failed(ending.what["class"], ending.what["code"])
        return ending.what

    async def _function(self, called: str) -> Any:
        """A child that is no definition. One that is cancelled takes its time, too."""
        fate = await self._begin(called)
        try:
            await asyncio.sleep(fate.duration / 1e6)
        except asyncio.CancelledError:
            fate = await self._begin(f"cancel {called}")
            await unstoppable(asyncio.sleep(fate.duration / 1e6))
            raise
        if fate.error:
            raise Failed(fate.error, ERRORS[fate.error].__name__)
        return fate.value

    async def _ended(self, child: Reference) -> Ending:
        """The end of a child. One that is parked has none, and whoever cancels it waits for it all the same."""
        ending = await child.play()
        if ending.how == "parked":
            await unstoppable(never())
        return ending

    # -- verbs: blocks ---------------------------------------------------------------------------------------------

    async def _do(self, name: str, body: Body, line: Line) -> None:
        await self.nodes(body["do"], line)

    async def _switch(self, name: str, body: Body, line: Line) -> None:
        for case in body["switch"]:
            if "else" in case:
                await self.nodes(case["else"], line)
            elif line.value(case["when"]):
                await self.nodes(case["do"], line)
                return

    async def _repeat(self, name: str, body: Body, line: Line) -> Any:
        loop = body["repeat"]
        if "at_once" in loop:
            return await self._at_once(body, line, self._items(loop, line))
        results: list[Any] = []
        if "over" in loop or "times" in loop:
            for index, item in enumerate(self._items(loop, line)):
                results.append(await self._iteration(body, self._inner(loop, line, index, item)))
            return results
        index, most = 0, loop.get("most")
        while True:
            inner = self._inner(loop, line, index, None)
            if "while" in loop and not inner.value(loop["while"]):
                return results
            if index == most:
                raise Failed("business", "REPEATED_TOO_OFTEN")
            results.append(await self._iteration(body, inner))
            if "until" in loop and inner.value(loop["until"]):
                return results
            index += 1

    def _items(self, loop: Body, line: Line) -> list[Any]:
        return list(line.value(loop["over"])) if "over" in loop else list(range(line.value(loop["times"])))

    def _inner(self, loop: Body, line: Line, index: int, item: Any) -> Line:
        bound = {**line.bound, loop.get("index", "index"): index}
        if "over" in loop:
            bound[loop.get("item", "item")] = item
        keeps = loop.get("errors") == "keep"
        return replace(line, bound=bound, catches=(lambda: True) if keeps else line.catches)

    async def _iteration(self, body: Body, line: Line) -> Any:
        keep = body["repeat"].get("errors") == "keep"
        try:
            await self.nodes(body["do"], line)
            value = line.value(body.get("gives"))
        except Failed as error:
            if not keep:
                raise
            return {"error": error.shown}
        return {"value": value} if keep else value

    async def _at_once(self, body: Body, line: Line, items: list[Any]) -> list[Any]:
        loop, results = body["repeat"], dict[int, Any]()
        running: dict[asyncio.Future[Any], tuple[int, Scope]] = {}
        waiting = list(enumerate(items))
        while waiting or running:
            while waiting and len(running) < loop["at_once"]:
                index, item = waiting.pop(0)
                inner = replace(self._inner(loop, line, index, item), memory=line.memory.branch())
                inner = replace(inner, scope=Scope(line.scope))
                running[asyncio.ensure_future(self._iteration(body, inner))] = (index, inner.scope)
            for task in await waited(list(running), first=True):
                index, _ = running.pop(task)
                if task.exception() is not None:
                    await self._give_up([(each, scope) for each, (_, scope) in running.items()], line)
                results[index] = task.result()
        return [results[index] for index in sorted(results)]

    async def _fork(self, name: str, body: Body, line: Line) -> None:
        join = {"all": len(body["fork"]), "any": 1}.get(body.get("join", "all"), body.get("join"))
        tasks: dict[asyncio.Future[None], str] = {}
        won: list[str] = []

        def enough() -> bool:  # even if one more fails
            return sum(not each.done() for each in tasks) + len(won) > join or line.catches()

        lines = {branch: replace(self._branch(line), catches=enough) for branch in sorted(body["fork"])}
        tasks |= {asyncio.ensure_future(self.nodes(body["fork"][branch], lines[branch])): branch for branch in lines}
        while len(won) < join:
            for task in await waited([task for task in tasks if not task.done()], first=True):
                if task.exception() is None:
                    won.append(tasks[task])
                elif sum(not each.done() for each in tasks) + len(won) < join:
                    await self._lost(tasks, lines, {each for each in tasks if not each.done()}, line)
                    task.result()
        losers = {task for task, branch in tasks.items() if branch not in won}
        await _or_fail(self._lost(tasks, lines, losers, line))
        for branch in sorted(won):
            line.memory.publish(lines[branch].memory)

    async def _lost(self, tasks: dict[Any, str], lines: dict[str, Line], losers: set[Any], line: Line) -> int:
        return await self._give_up([(task, lines[tasks[task]].scope) for task in tasks if task in losers], line)

    def _branch(self, line: Line) -> Line:
        return replace(line, memory=line.memory.branch(), scope=Scope(line.scope))

    async def _pick(self, name: str, body: Body, line: Line) -> None:
        lines = {option: self._branch(line) for option in sorted(body["pick"])}
        triggers = {
            option: {word: value for word, value in body["pick"][option].items() if word != "do"} for option in lines
        }
        tasks: dict[asyncio.Future[bool], str] = {}
        done: list[asyncio.Future[bool]] = []
        for each in lines:  # one that is there at once wins, and those behind it never begin
            tasks[asyncio.ensure_future(self.node(each, triggers[each], lines[each]))] = each
            done = _options(await waited(list(tasks), 0.0, first=True), tasks)
            if done:
                break
        while tasks and not done:
            done = _options(await waited(list(tasks), first=True), tasks)
        if not done:
            return
        (first,) = done
        losers = self._lost(tasks, lines, {task for task in tasks if task is not first}, line)
        if first.exception() is None:
            line.memory.publish(lines[tasks[first]].memory)
        await (_or_fail(losers) if first.exception() is None else losers)
        first.result()
        await self.nodes(body["pick"][tasks[first]].get("do", []), line)

    async def _graph(self, name: str, body: Body, line: Line) -> None:
        await Graph(self, body["graph"], line).play()


def _options(done: list[asyncio.Future[bool]], tasks: dict[asyncio.Future[bool], str]) -> list[asyncio.Future[bool]]:
    """Those that are over, without those whose condition was false: they are no options."""
    for each in [each for each in done if each.exception() is None and not each.result()]:
        done.remove(each)
        del tasks[each]
    return done


async def _or_fail(undoing: Coroutine[Any, Any, int]) -> None:
    """Undo, and fail where something could not be undone."""
    if await undoing:
        raise Failed("transport", "UNDO")


def parks(error: Failed) -> bool:
    """Whether only the author can mend it: it is not tried again, and a run in which nothing catches it is parked."""
    return error.kind in ("expression", "consistency")


class Graph:
    """A graph being played. ``ended`` says how each node ended: done, skipped, failed or blocked."""

    def __init__(self, run: Reference, nodes: Body, line: Line) -> None:
        self.run, self.nodes, self.line = run, nodes, line
        self.ended: dict[str, str] = {}
        self.order: list[str] = []  # of those that succeeded
        self.lines: dict[str, Line] = {}
        self.failure: Failed | None = None

    async def play(self) -> None:
        running: dict[asyncio.Future[bool], str] = {}
        while True:
            for name in self._ready(set(running.values())):
                self.lines[name] = self._line(name)
                running[asyncio.ensure_future(self.run.node(name, self.nodes[name], self.lines[name]))] = name
            if not running:
                break
            for task in await waited(list(running), first=True):
                self._end(running.pop(task), task)
        for name in self.order:
            self.line.memory.publish(self.lines[name].memory)
        if self.failure is not None:
            raise self.failure

    def _end(self, name: str, task: asyncio.Future[bool]) -> None:
        error = task.exception()
        if error is None:
            self.ended[name] = "done" if task.result() else "skipped"
            self.order.append(name)
        elif isinstance(error, Failed):
            self.ended[name], self.failure = "failed", self.failure or error
        else:
            raise error

    def _ready(self, running: set[str]) -> list[str]:
        """The nodes that can begin; those that cannot ever are blocked."""
        found = []
        for _ in self.nodes:
            for name in sorted(self.nodes.keys() - self.ended.keys() - running - set(found)):
                needs, after = self.nodes[name].get("needs", []), self.nodes[name].get("after", [])
                if any(self.ended.get(each) in ("failed", "blocked") for each in needs):
                    self.ended[name] = "blocked"
                elif all(each in self.ended for each in [*needs, *after]):
                    found.append(name)
        return found

    def _line(self, name: str) -> Line:
        seen = self._before(name)
        memory = self.line.memory.branch()
        for each in self.order:
            if each in seen:
                memory.publish(self.lines[each].memory)
        memory.writes.clear()
        return replace(self.line, memory=memory, scope=self.line.scope)

    def _before(self, name: str) -> set[str]:
        direct = {*self.nodes[name].get("needs", []), *self.nodes[name].get("after", [])}
        return direct.union(*map(self._before, direct))


Verb = Callable[[Reference, str, Body, Line], Awaitable[Any]]
VERBS: dict[str, Verb] = {
    verb: getattr(Reference, f"_{verb}")
    for verb in (
        "set", "sleep", "wait", "task", "continue", "send", "end", "raise", "compensate", "run", "do", "switch",
        "repeat", "fork", "pick", "graph",
    )
}  # fmt: skip


# -- asyncio -----------------------------------------------------------------------------------------------------------


async def moment() -> None:
    """Let everything happen that happens now: what is given up in the moment in which it begins was never begun."""
    for _ in range(20):
        await asyncio.sleep(0)


async def waited(
    tasks: list[asyncio.Future[T]], seconds: float | None = None, *, first: bool = False
) -> list[asyncio.Future[T]]:
    """Wait for all, or the first; whoever is cancelled meanwhile cancels them and waits for the end of it."""
    when = asyncio.FIRST_COMPLETED if first else asyncio.ALL_COMPLETED
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=when)
    except asyncio.CancelledError:
        await stopped(tasks)
        raise
    return [task for task in tasks if task in done]


async def stopped(tasks: list[asyncio.Future[Any]]) -> None:
    """Cancel these and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await unstoppable(_all(tasks))


async def _all(tasks: list[asyncio.Future[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def unstoppable(work: Coroutine[Any, Any, T]) -> T:
    """Do this to its end. A cancellation is heard afterwards."""
    task = asyncio.ensure_future(work)
    heard = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as cancelled:
            if task.done() and task.cancelled():
                raise
            heard = cancelled
        except Exception:
            break
    if heard is not None:
        task.exception()  # nobody asks for it any more
        raise heard
    return task.result()


def played(case: Case) -> tuple[Ending, Outside]:
    """A case, by the reference."""
    outside = Outside(case.seed)
    return run_virtually(_played(case, outside)), outside


async def _played(case: Case, outside: Outside) -> Ending:
    run = Reference(case.document, case.children, outside, {"at": "root", "i": []})
    loop, body = asyncio.get_running_loop(), asyncio.ensure_future(run.play())
    for when, address, payload in case.signals:
        loop.call_at(when / 1e6, run.mail.arrive, address, payload)
    loop.call_at(case.cancel_at / 1e6, body.cancel)
    await asyncio.wait([body], timeout=2 * END_OF_TIME)
    return body.result() if body.done() else Ending("stuck", None, {}, None)
