"""A chart as a machine: what it sends, when it ends, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Cell, machine
from holdfast.errors import DuplicateName, InvalidDefinition, InvalidRequest
from holdfast.programs.machine.chart_machine import ChartMachine, machine_of_chart, machine_of_scxml
from holdfast.programs.machine.charts import parse
from holdfast.programs.machine.schemas import schema
from holdfast.testing import machine_engine, run_virtually

HEAD = '<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" datamodel="python"'

ORDER = (
    HEAD
    + """ initial="cart" name="chart.order">
  <datamodel><data id="cents" expr="0"/><data id="seen" expr="[]"/></datamodel>
  <state id="cart">
    <transition event="placed" target="paying"><assign location="cents" expr="_event.data['cents']"/></transition>
  </state>
  <state id="paying">
    <onentry>
      <send event="late" delay="2s" id="late"/>
      <send type="holdfast" target="ledger" event="pay"><param name="cents" expr="cents"/></send>
      <send event="counted"/>
    </onentry>
    <onexit><cancel sendid="late"/></onexit>
    <transition event="counted"><assign location="seen" expr="seen + ['counted']"/></transition>
    <transition event="paid" target="done"/>
    <transition event="late" target="cancelled"/>
  </state>
  <final id="done"/>
  <final id="cancelled"/>
</scxml>"""
)


def chart(text: str, name: str) -> ChartMachine:
    return ChartMachine(parse(text), name)


ORDERS = chart(ORDER, "chart.order")


@dataclass
@schema("chart/Ledger@1")
class Ledger:
    heard: list[str]


@machine(key={ORDERS.sent: "target"}, name="chart.ledger")
def ledger(state: Ledger | None, event: ORDERS.sent, cell: Cell) -> Ledger | None:  # type: ignore[name-defined]
    """A plain machine that hears what charts send to it."""
    now = state or Ledger([])
    return Ledger([*now.heard, f"{event.key} {event.name} {event.data['cents']}"])


def active(state: Any) -> tuple[str, ...]:
    return ORDERS.configuration(state).active


def test_an_event_is_a_step_of_the_chart_and_needs_no_engine() -> None:
    made = ORDERS.step(None, ORDERS.event("o1", "placed", {"cents": 5}))
    assert active(made.state) == ("paying",)
    assert ORDERS.configuration(made.state).data == {"cents": 5, "seen": ["counted"]}
    assert made.events == (ORDERS.sent("o1", "ledger", "pay", {"cents": 5}),)
    (timer,) = made.timers
    assert timer.wake_at == 2_000_000


def test_an_event_without_a_name_enters_the_chart_with_variables() -> None:
    made = ORDERS.step(None, ORDERS.event("o1", data={"cents": 7}))
    assert active(made.state) == ("cart",)
    assert ORDERS.configuration(made.state).data["cents"] == 7


def test_charts_and_machines_hear_each_other_and_delays_are_timers() -> None:
    async def main() -> None:
        async with machine_engine([ORDERS, ledger]) as engine:
            await engine.send(*(ORDERS.event(f"o{number}", "placed", {"cents": number}) for number in range(3)))
            await engine.send(ORDERS.event("o1", "paid"))
            await engine.restart()
            await engine.pass_time(timedelta(seconds=3))
            ends = [active(await engine.state(ORDERS, f"o{number}")) for number in range(3)]
            assert ends == [("cancelled",), ("done",), ("cancelled",)]
            heard = await engine.state(ledger, "ledger")
            assert heard is not None
            assert sorted(heard.heard) == ["o0 pay 0", "o1 pay 1", "o2 pay 2"]
            record = await engine.record(ORDERS, "o1")
            assert record is not None
            assert (record.status, record.timers) == ("completed", ())

    run_virtually(main())


def test_a_chart_that_sends_itself_events_for_ever_parks_its_cell() -> None:
    looping = chart(
        HEAD
        + """ initial="a"><state id="a"><onentry><send event="x"/></onentry>
        <transition event="x" target="a"/></state></scxml>""",
        "chart.loop",
    )

    async def main() -> None:
        async with machine_engine([looping]) as engine:
            await engine.send(looping.event("k"))
            record = await engine.record(looping, "k")
            assert record is not None
            assert record.status == "parked"
            assert "more than 1,000 events" in record.reason

    run_virtually(main())


def test_a_chart_that_was_not_entered_has_no_configuration() -> None:
    with pytest.raises(InvalidRequest, match="not entered"):
        ORDERS.configuration(None)


def test_a_chart_with_an_unsupported_part_is_refused_with_its_line() -> None:
    text = ORDER.replace('type="holdfast"', 'type="http://www.w3.org/TR/scxml/#BasicHTTPEventProcessor"')
    with pytest.raises(InvalidDefinition, match="line 9: "):
        machine_of_scxml(text)


def test_a_chart_without_a_name_needs_one() -> None:
    with pytest.raises(InvalidRequest, match="give name="):
        machine_of_chart(parse(ORDER.replace('name="chart.order"', "")))


def test_two_charts_of_one_name_are_refused_and_the_same_chart_twice_is_not() -> None:
    first = machine_of_scxml(ORDER, name="chart.twice")
    assert machine_of_scxml(ORDER, name="chart.twice").hash == first.hash
    with pytest.raises(DuplicateName, match=r"chart\.twice"):
        machine_of_scxml(ORDER.replace("2s", "3s"), name="chart.twice")
