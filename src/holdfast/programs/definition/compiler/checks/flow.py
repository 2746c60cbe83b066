"""Where a definition's nodes lead: what is never reached, what can never go on, and where a run may not end."""

from __future__ import annotations

from holdfast.errors import InvalidRequest
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.faults import FaultList
from holdfast.programs.definition.spans import read_moment
from holdfast.programs.definition.walks import all_nodes
from holdfast.runs.signals import KEY_MARK, RESERVED
from holdfast.tasks.forms import check_form

_TIMELESS = (m.WaitVerb, m.SleepVerb, m.SetVerb, m.SendVerb)
_GIVES = (
    m.ForkVerb,
    m.CallVerb,
    m.TransportVerb,
    m.TaskVerb,
    m.WaitVerb,
    m.RepeatVerb,
    m.RunVerb,
    m.ContinueVerb,
    m.GraphVerb,
)


def check_flow(definition: m.Definition, faults: FaultList) -> None:
    """Every node can be reached, everything that waits can be settled, and nothing ends a run from a parallel block."""
    if not definition.steps and not any(fault.trail[:1] == ("steps",) for fault in faults.found):
        faults.add(("steps",), "a definition has at least one node")
    _check_list(definition.steps, faults)
    _check_ends(definition.steps, faults, within="")
    for node in all_nodes(definition.steps):
        _check_node(node, faults)


def _check_list(nodes: m.Nodes, faults: FaultList) -> None:
    stopped = ""
    for node in nodes:
        if stopped:
            faults.at_node(node.name, f"it is never reached: {stopped} always ends the way before it")
            break
        if never_goes_on(node):
            stopped = node.name
    for node in nodes:
        for key, inner in m.lists_of(node):
            if isinstance(node.verb, m.GraphVerb) and not key.startswith("on."):
                for each in inner:
                    _check_list((each,), faults)
            else:
                _check_list(inner, faults)


def never_goes_on(node: m.Node) -> bool:
    """Whether nothing behind the node is ever reached."""
    if node.when is not None:
        return False
    if isinstance(node.verb, m.EndVerb):
        return True
    on = node.on
    if isinstance(node.verb, m.RaiseVerb):
        return on.failure is None or ends(on.failure)
    if any(handler is not None and not ends(handler) for handler in (on.failure, on.timeout)):
        return False  # what goes wrong before its end goes on behind it
    return _ends_inside(node.verb) or (on.success is not None and ends(on.success))


def ends(nodes: m.Nodes) -> bool:
    """Whether a list of nodes never comes to its end."""
    return any(never_goes_on(node) for node in nodes)


def _ends_inside(verb: m.Verb) -> bool:
    match verb:
        case m.BlockVerb(do=do):
            return ends(do)
        case m.SwitchVerb(cases=cases):
            return any(case.when is None for case in cases) and all(ends(case.do) for case in cases)
        case m.PickVerb(options=options):
            return bool(options) and all(ends(option.do) for option in options)
        case m.RepeatVerb(while_="true", most=None) | m.RepeatVerb(until="false", most=None):
            return True
        case m.RepeatVerb(until=str(), do=do):
            return ends(do)
        case m.ForkVerb(branches=branches, join=join):
            wanted = len(branches) if join is None else join
            return len(branches) - sum(ends(branch.do) for branch in branches) < wanted
        case m.GraphVerb(nodes=nodes):
            return ends(nodes)
        case _:
            return False


def _check_ends(nodes: m.Nodes, faults: FaultList, within: str) -> None:
    for node in nodes:
        if within and isinstance(node.verb, m.EndVerb):
            faults.at_node(node.name, f"a run cannot end inside {within}: others run beside it")
        parallel = isinstance(node.verb, m.ForkVerb | m.GraphVerb)
        parallel = parallel or (isinstance(node.verb, m.RepeatVerb) and node.verb.at_once is not None)
        for key, inner in m.lists_of(node):
            _check_ends(inner, faults, node.name if parallel and not key.startswith("on.") else within)


def _check_node(node: m.Node, faults: FaultList) -> None:
    verb = node.verb
    if node.into is not None and not isinstance(verb, _GIVES):
        faults.at_node(node.name, "this verb gives no result, so there is nothing to keep by `as`", "as")
    if node.undo is not None and not isinstance(verb, m.CallVerb | m.TransportVerb):
        faults.at_node(node.name, "only a call of a step, an action or a transport can be undone", "undo")
    if isinstance(verb, m.TransportVerb) and node.undo is not None and node.undo.inherits:
        faults.at_node(node.name, "the undo of a transport call says with what it is called: `with: {…}`", "undo")
    if node.retry is not None and isinstance(verb, m.CompensateVerb):
        faults.at_node(node.name, "it is not tried again: give the step or action that undoes a retry", "retry")
    if node.when == "false":
        faults.at_node(node.name, "it is never reached, since its condition is false: delete it", "when")
    if node.on.timeout is not None and node.timeout is None and isinstance(verb, _TIMELESS):
        faults.at_node(node.name, "it is never too late without a limit: give it a `timeout`", "on", "timeout")
    if node.timeout is not None:
        _check_timeout(node, node.timeout, faults)
    match verb:
        case m.SwitchVerb(cases=cases):
            _check_cases(node, cases, faults)
        case m.WaitVerb(match="false"):
            faults.at_node(node.name, "no signal can match, so it would wait for ever", "match")
        case m.ForkVerb(gives=None) if node.into is not None:
            faults.at_node(node.name, "its branches give nothing to keep: say `gives: =…`", "as")
        case m.ForkVerb(branches=()) | m.PickVerb(options=()) | m.GraphVerb(nodes=()):
            faults.at_node(node.name, "it has nothing inside, so it would do nothing")
        case m.PickVerb(options=options):
            _check_triggers(options, faults)
        case m.CheckVerb(schema=schema):
            _check_schema(node, schema, faults)
        case m.RepeatVerb():
            _check_repeat(node, verb, faults)
        case m.WaitVerb(signal=signal) | m.SendVerb(signal=signal) if signal.startswith(RESERVED):
            faults.at_node(node.name, f"names of signals that begin with {RESERVED!r} are the engine's own")
        case m.WaitVerb(signal=signal, key=key) | m.SendVerb(signal=signal, key=key) if (
            KEY_MARK in signal and key is not None
        ):
            faults.at_node(node.name, f"a signal with a key has no {KEY_MARK!r} in its name: {signal!r}")
        case m.SleepVerb(span=None, at=None):
            faults.at_node(node.name, "it says neither how long nor until when: `sleep: 2h` or `sleep: {until: =…}`")
        case m.SleepVerb(at=at):
            _check_moment(node, at, faults, "sleep", "until")
        case _:
            pass


def _check_timeout(node: m.Node, timeout: m.Timeout, faults: FaultList) -> None:
    if timeout.attempt is not None and not isinstance(node.verb, m.CallVerb | m.TransportVerb):
        text = "only a call of a step, an action or a transport has a time for each try: say `all` for the whole"
        faults.at_node(node.name, text, "timeout", "try")
    _check_moment(node, timeout.at, faults, "timeout", "at")


def _check_moment(node: m.Node, value: m.Value, faults: FaultList, *place: str) -> None:
    """A time that is written down, and no expression."""
    if value is None or (isinstance(value, str) and value.startswith("=")):
        return
    try:
        read_moment(value)
    except ValueError as error:
        faults.at_node(node.name, str(error), *place)


def _check_cases(node: m.Node, cases: tuple[m.Case, ...], faults: FaultList) -> None:
    for at, case in enumerate(cases):
        if case.when is None and at < len(cases) - 1:
            faults.at_node(node.name, "`else` is the last case: what stands behind it is never done", "switch", at)
        elif case.when == "true" and at < len(cases) - 1:
            faults.at_node(node.name, "this case is always taken: what stands behind it is never done", "switch", at)
        elif case.when == "false":
            faults.at_node(node.name, "this case is never taken, since its condition is false", "switch", at)


def _check_triggers(options: tuple[m.Option, ...], faults: FaultList) -> None:
    waiting = (m.WaitVerb, m.SleepVerb, m.TaskVerb, m.CallVerb, m.TransportVerb, m.RunVerb)
    for option in options:
        if not isinstance(option.trigger.verb, waiting):
            faults.at_node(option.trigger.name, "an option of a pick begins with what waits: wait, sleep, task, step …")


def _check_schema(node: m.Node, schema: m.Schema, faults: FaultList) -> None:
    try:
        check_form(schema)
    except InvalidRequest as error:
        faults.at_node(node.name, str(error).replace("the form", "this"), "schema")


def _check_repeat(node: m.Node, verb: m.RepeatVerb, faults: FaultList) -> None:
    if verb.item == verb.index:
        faults.at_node(node.name, f"item and index are both called {verb.item!r}: rename one", "repeat", "item")
    if not verb.do:
        faults.at_node(node.name, "a repeat has nodes to repeat: `do: […]`")
    if verb.at_once is not None and (verb.while_ is not None or verb.until is not None):
        faults.at_node(node.name, "only `over` and `times` can run at once: the others wait for what an iteration did")
    if isinstance(verb.times, int) and verb.times < 0:
        faults.at_node(node.name, f"`times` is a whole number from 0 on, not {verb.times}", "repeat", "times")
    endless = verb.while_ == "true" or verb.until == "false"
    leaves = (isinstance(each.verb, m.EndVerb | m.RaiseVerb) for each in all_nodes(verb.do))
    if endless and verb.most is None and not any(leaves):
        faults.at_node(node.name, "it never ends: give a limit, `most: 100`, or a condition that can become false")
    if node.into is not None and verb.gives is None and not verb.keep_errors:
        faults.at_node(node.name, "an iteration gives nothing to keep: say `gives: =…`", "as")
