"""Charts step by step: events in, configuration, sends, timers and errors out."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from holdfast.errors import InvalidDefinition, InvalidRequest
from holdfast.programs.machine.charts import (
    ChartEvent,
    ChartLimits,
    ChartResult,
    begin,
    decode_configuration,
    encode_configuration,
    fire,
    parse,
    step,
)
from tests.charts import ChartDriver

ORDER = parse("""<scxml name="order">
  <datamodel><data id="cents"/><data id="tries" expr="0"/></datamodel>
  <state id="open">
    <onentry><send event="expired" delay="2s" id="deadline"/></onentry>
    <onexit><cancel sendid="deadline"/></onexit>
    <transition event="pay" cond="_event.data.cents >= cents" target="paid"/>
    <transition event="pay"><assign location="tries" expr="tries + 1"/></transition>
    <transition event="expired" target="closed"/>
  </state>
  <state id="paid"><transition event="ship" target="closed"/></state>
  <final id="closed"><donedata><param name="tries" expr="tries"/></donedata></final>
</scxml>""")


def _event(name: str, data: Any = None) -> ChartEvent:
    return ChartEvent(name=name, data=data)


def test_a_chart_begins_with_what_it_is_given_and_starts_its_timers() -> None:
    result = begin(ORDER, "o1", {"cents": 500, "unknown": 1})
    assert result.configuration.active == ("open",)
    assert result.configuration.data == {"cents": 500, "tries": 0}
    ((id, delay),) = ((timer.id, timer.delay_milliseconds) for timer in result.timers)
    assert (delay, list(result.configuration.timers)) == (2_000, [id])


def test_a_cancelled_timer_is_told_and_nobody_hears_it_when_it_fires_all_the_same() -> None:
    begun = begin(ORDER, "o1", {"cents": 500})
    (timer,) = begun.timers
    paid = step(ORDER, begun.configuration, _event("pay", {"cents": 500}))
    assert (paid.configuration.active, paid.cancelled) == (("paid",), (timer.id,))
    late = fire(ORDER, paid.configuration, timer.id)
    assert (late.is_heard, late.configuration) == (False, paid.configuration)


def test_a_timer_that_fires_is_the_event() -> None:
    begun = begin(ORDER, "o1", {"cents": 500})
    short = step(ORDER, begun.configuration, _event("pay", {"cents": 1}))
    ended = fire(ORDER, short.configuration, begun.timers[0].id)
    assert ended.configuration.is_finished
    assert ended.configuration.done_data == {"tries": 1}
    assert ended.configuration.timers == {}


def test_a_finished_chart_hears_nothing() -> None:
    ended = fire(ORDER, begin(ORDER, "o1", {"cents": 1}).configuration, "1").configuration
    after = step(ORDER, ended, _event("pay", {"cents": 1}))
    assert (after.is_heard, after.configuration) == (False, ended)


def test_what_cannot_be_evaluated_is_an_error_event_with_its_line() -> None:
    result = step(ORDER, begin(ORDER, "o1").configuration, _event("pay", {"cents": 5}))
    (error,) = result.errors
    assert (error.name, error.line, "cond=" in error.message) == ("error.execution", 6, True)
    assert result.configuration.data["tries"] == 1


@pytest.mark.parametrize(
    "body",
    [
        '<state id="a"><transition target="b"/></state><state id="b"><transition target="a"/></state>',
        '<state id="a"><onentry><raise event="e"/></onentry><transition event="e" target="a"/></state>',
        '<state id="a"><transition cond="1 == 1"/></state>',
    ],
)
def test_a_chart_that_goes_on_for_ever_is_stopped_with_a_remedy(body: str) -> None:
    with pytest.raises(InvalidDefinition, match=r"more than 1,000 sets of transitions: look for"):
        begin(parse(f"<scxml>{body}</scxml>"), "s")
    with pytest.raises(InvalidDefinition, match=r"more than 7 sets"):
        begin(parse(f"<scxml>{body}</scxml>"), "s", limits=ChartLimits(microsteps=7))


def test_a_step_that_costs_too_much_is_stopped_and_its_configuration_stays() -> None:
    loops = '<foreach item="x" array="many"><foreach item="y" array="many"><raise event="e"/></foreach></foreach>'
    chart = parse(f"""<scxml><datamodel><data id="many" expr="list(range(5000))"/></datamodel>
        <state id="a"><transition event="go">{loops}</transition></state></scxml>""")
    begun = begin(chart, "s").configuration
    before = encode_configuration(begun)
    with pytest.raises(InvalidDefinition, match="more than 200,000 operations"):
        step(chart, begun, _event("go"))
    assert encode_configuration(begun) == before


@pytest.mark.parametrize("data", [object(), {1: 2}, float("nan"), "\ud800", [b"x"], 1 << 70])
def test_data_that_is_not_plain_is_refused(data: Any) -> None:
    with pytest.raises(InvalidRequest, match="plain data"):
        step(ORDER, begin(ORDER, "o1").configuration, _event("pay", data))
    with pytest.raises(InvalidRequest, match="plain data"):
        begin(ORDER, "o1", {"cents": data})


SENDER = parse("""<scxml datamodel="python"><state id="a"><onentry>
  <send type="machine" target="payments" event="charge"><param name="cents" expr="5"/></send>
  <send type="machine" target="payments" event="late" delay="1s" id="x"/>
  <send event="own"/>
  <send type="unknown" event="never"/>
</onentry><transition event="stop" target="b"><cancel sendid="x"/></transition></state><state id="b"/></scxml>""")


def _given_out(result: ChartResult) -> list[tuple[str, str, str]]:
    return [(send.type, send.target, send.event.name) for send in result.sends]


def test_what_is_sent_by_a_type_of_the_callers_is_given_out_when_its_delay_is_over() -> None:
    result = begin(SENDER, "s", types=["machine"])
    assert _given_out(result) == [("machine", "payments", "charge"), ("", "", "own")]
    assert result.sends[0].event.data == {"cents": 5}
    assert [error.message for error in result.errors] == ["nothing is sent by type 'unknown'"]
    late = fire(SENDER, result.configuration, result.timers[0].id, types=["machine"])
    assert _given_out(late) == [("machine", "payments", "late")]
    assert late.configuration.timers == {}


def test_a_delayed_send_to_others_can_be_cancelled() -> None:
    begun = begin(SENDER, "s", types=["machine"])
    stopped = step(SENDER, begun.configuration, _event("stop"), types=["machine"])
    assert stopped.cancelled == (begun.timers[0].id,)


INVOKER = parse("""<scxml>
  <datamodel><data id="got" expr="[]"/><data id="price" expr="4"/></datamodel>
  <state id="busy">
    <invoke id="child" namelist="price" autoforward="true">
      <content><scxml><datamodel><data id="price" expr="0"/></datamodel>
        <state id="c"><onentry><send event="late" delay="1s"/><send target="#_parent" event="hello"/></onentry>
          <onexit><send target="#_parent" event="bye"/></onexit>
          <transition event="end" target="f"/></state>
        <final id="f"><donedata><param name="price" expr="price"/></donedata></final>
      </scxml></content>
      <finalize><script>got = got + [_event.name]</script></finalize>
    </invoke>
    <transition event="done.invoke.child" target="ready"><script>got = got + [_event.data.price]</script></transition>
    <transition event="leave" target="ready"/>
  </state>
  <state id="ready"/>
</scxml>""")


def test_an_invoked_chart_gets_data_hears_events_and_tells_its_end() -> None:
    driver = ChartDriver(INVOKER)
    driver.deliver()
    assert len(driver.configuration.sessions) == 2
    driver.send("end")
    assert driver.configuration.active == ("ready",)
    assert driver.configuration.data["got"] == ["hello", "bye", "done.invoke.child", 4]
    assert (len(driver.configuration.sessions), driver.configuration.timers) == (1, {})


def test_an_invoked_chart_that_is_left_is_not_heard_any_more() -> None:
    begun = begin(INVOKER, "s")
    (hello,) = begun.sends
    left = step(INVOKER, begun.configuration, _event("leave"))
    assert list(left.configuration.sessions) == ["s"]
    assert left.cancelled == (begun.timers[0].id,)
    late = step(INVOKER, left.configuration, hello.event)
    assert (late.is_heard, late.configuration) == (False, left.configuration)


def test_a_tree_of_charts_is_the_same_after_it_was_stored() -> None:
    begun = begin(INVOKER, "s").configuration
    stored = decode_configuration(encode_configuration(begun))
    assert stored == begun
    assert step(INVOKER, stored, _event("end")) == step(INVOKER, begun, _event("end"))


def test_charts_that_invoke_too_many_are_stopped() -> None:
    child = "<invoke><content><scxml><state id='c'/></scxml></content></invoke>"
    with pytest.raises(InvalidDefinition, match="more than 3 charts at a time"):
        begin(parse(f"<scxml><state id='a'>{child * 4}</state></scxml>"), "s", limits=ChartLimits(sessions=3))


def test_bytes_that_are_no_stored_configuration_are_refused() -> None:
    stored = encode_configuration(begin(ORDER, "o1").configuration)
    for bad in (b"", stored[:-1], stored + b"\0", b"\xa0", stored.replace(b"active", b"actixe")):
        with pytest.raises(ValueError):
            decode_configuration(bad)


PROGRAM = """
from holdfast.programs.machine.charts import ChartEvent, begin, encode_configuration, parse, step
first = "zeta = 1\\nalpha = {'y': [1], 'xx': {}}\\nbeta = str(alpha)"
then = "for key in alpha: beta += key\\nalpha.update([[1, 2]])"
chart = parse(
    f"<scxml><state id='a'><onentry><script>{first}</script></onentry>"
    f"<transition event='e'><script>{then}</script></transition></state></scxml>"
)
print(encode_configuration(step(chart, begin(chart, "s").configuration, ChartEvent(name="e")).configuration).hex())
"""


def test_a_result_does_not_depend_on_how_python_hashes_texts() -> None:
    """Neither clock nor chance is read, and no order of a set is seen."""
    printed = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(printed) == 1


def test_a_chart_without_a_session_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="session"):
        begin(ORDER, "")
