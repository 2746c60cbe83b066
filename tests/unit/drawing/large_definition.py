"""A definition of 200 nodes as people write them: a month's close, company by company, with checks and approvals."""

from __future__ import annotations

from holdfast.programs.definition import model as m

COMPANIES = ("north", "south", "east", "west", "overseas", "holding", "shared", "leasing", "retail")


def month_close() -> m.Definition:
    """Nine companies, then what they have in common."""
    nodes: list[m.Node] = [
        _node("calendar", m.CallVerb(kind="step", name="ledger.calendar"), into=("state", "calendar")),
        _node("freeze", m.CallVerb(kind="action", name="ledger.freeze"), undo=_undo("ledger.unfreeze")),
    ]
    for company in COMPANIES:
        nodes += _company(company)
    nodes += [
        _node("consolidate", m.CallVerb(kind="step", name="ledger.consolidate"), title="Put the companies together"),
        _node("audit", m.CallVerb(kind="step", name="ledger.audit")),
        _node("print", m.CallVerb(kind="step", name="ledger.print")),
        _node("board", m.WaitVerb(signal="board.agreed")),
        _node("publish", m.CallVerb(kind="action", name="ledger.publish"), undo=_undo("ledger.withdraw")),
        _node("letters", m.RunVerb(workflow="letters.send", version=2)),
        _node("sign", m.TaskVerb(task="sign"), timeout=m.Timeout(whole=864_000_000_000)),
        _node("archive", m.ContinueVerb(workflow="ledger.archive")),
        _node("done", m.EndVerb(result={"month": "=start.month"})),
    ]
    return m.Definition(name="ledger.close", version=7, title="Close a month", steps=tuple(nodes))


def _company(name: str) -> list[m.Node]:
    """Twenty-four nodes."""

    def step(what: str, **parts: object) -> m.Node:
        return _node(f"{name}.{what}", m.CallVerb(kind="step", name=f"ledger.{what}"), **parts)

    def block(what: str, verb: m.Verb, **parts: object) -> m.Node:
        return _node(f"{name}.{what}", verb, **parts)

    book = (step("match"), step("book", retry=m.NodeRetry(max=3)))
    sources = m.ForkVerb(
        branches=(
            m.Branch(name="bank", do=(block("statement", m.WaitVerb(signal="statement")), step("import"))),
            m.Branch(
                name="payroll", do=(block("wages", m.TransportVerb(verb="http", request={"get": "https://pay"})),)
            ),
            m.Branch(name="stock", do=(step("count"), step("value"))),
        )
    )
    graph = m.GraphVerb(
        nodes=(
            step("accruals"),
            step("depreciation"),
            step("taxes", needs=(f"{name}.accruals", f"{name}.depreciation")),
            step("report", needs=(f"{name}.taxes",), after=(f"{name}.accruals",)),
        )
    )
    review = m.SwitchVerb(
        cases=(
            m.Case(when="state.difference > 1000.0", do=(block("ask", m.TaskVerb(task="review")), step("correct"))),
            m.Case(when="state.difference > 0.0", do=(step("write_off"),)),
        )
    )
    alarm = m.Handlers(failure=(block("alarm", m.SendVerb(to="=state.desk", signal="trouble")),))
    return [
        step("open", on=alarm),
        block("sources", sources),
        block("entries", m.RepeatVerb(do=book, over="=state.entries", item="entry", at_once=8)),
        block("closing", graph),
        block("review", review),
        block("pause", m.SleepVerb(span=3_600_000_000)),
    ]


def _undo(name: str) -> m.UndoCall:
    return m.UndoCall(verb=m.CallVerb(kind="action", name=name))


def _node(name: str, verb: m.Verb, **parts: object) -> m.Node:
    return m.Node(name=name, verb=verb, **parts)  # type: ignore[arg-type]  # the parts of a node, by name
