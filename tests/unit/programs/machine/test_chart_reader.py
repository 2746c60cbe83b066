"""Charts from SCXML: every fault at once with its line, nothing harmful read, and what is not supported is said."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidDefinition
from holdfast.programs.machine.charts import decode_chart, describe, encode_chart, parse
from holdfast.programs.machine.charts.delays import delay_milliseconds


def _faults(text: str) -> list[tuple[int, str]]:
    with pytest.raises(InvalidDefinition) as caught:
        parse(text, "order.scxml")
    assert all(fault.file == "order.scxml" and str(fault) in str(caught.value) for fault in caught.value.faults)  # type: ignore[attr-defined]
    return [(fault.line, fault.message) for fault in caught.value.faults]  # type: ignore[attr-defined]


def test_all_faults_are_said_at_once_each_with_its_line() -> None:
    text = """<scxml initial="opened">
  <state id="open">
    <transition event="pay" target="payed"/>
    <transition event="x" target="paid" type="sideways"/>
    <onentry><rase event="a"/><send delay="soon" event="b"/><cancel/></onentry>
  </state>
  <state id="paid"><invoke/></state>
  <state id="paid"/>
  <parallel id="both"><state id="one"/><state id="two"/></parallel>
  <state id="last" initial="open"><final id="end"/><transition event="y" target="open one"/></state>
</scxml>"""
    found = _faults(text)
    assert [line for line, _ in found] == [1, 3, 4, 5, 5, 5, 7, 8, 10, 10]
    told = " | ".join(message for _, message in found)
    for part in (
        "there is no state 'opened': did you mean 'open'?",
        "there is no state 'payed': did you mean 'paid'?",
        "a transition is internal or external, not 'sideways'",
        "<rase> cannot stand in <onentry>: did you mean 'raise'?",
        "'soon' is no delay: write one such as 1.5s or 250ms",
        "<cancel> needs sendid or sendidexpr",
        "<invoke> says nothing to invoke",
        "two states have the id 'paid' (line 7 too): rename one",
        "the initial state of 'last' must be inside it: 'open' is not",
        "'open' and 'one' cannot be entered together",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("<scxml><state></scxml>", 1, "mismatched tag"),
        ("", 1, "no element found"),
        ("<html/>", 1, "the document is <html>"),
        ('<x:scxml xmlns:x="urn:other"/>', 1, "the document is <scxml>"),
        ("<scxml/>", 1, "has no state"),
        ('<scxml datamodel="xpath"><final/></scxml>', 1, "datamodel='xpath' is not supported"),
        ("<scxml><state>word</state></scxml>", 1, "<state> holds no text: remove 'word'"),
        ('<scxml>\n<state><onentry><o:do xmlns:o="urn:o"/></onentry></state></scxml>', 2, "another namespace"),
        ('<scxml>\n<datamodel><data id="_x"/></datamodel><final/></scxml>', 2, "'_x' is no name for a variable"),
        ('<scxml>\n<script src="a.py"/><final/></scxml>', 2, "cannot be read from here"),
        ('<scxml>\n<script src="http://a/b"/><final/></scxml>', 2, "nothing is fetched"),
        ('<scxml><state><history id="h"/><state id="a"/></state></scxml>', 1, "<history> holds one <transition>"),
        ("<scxml>" + "<state>" * 80 + "</state>" * 80 + "</scxml>", 1, "more than 60 levels deep"),
    ],
)
def test_a_fault_says_what_to_do(text: str, line: int, message: str) -> None:
    assert any(at == line and message in told for at, told in _faults(text)), _faults(text)


@pytest.mark.parametrize(
    "declaration",
    [
        '<!DOCTYPE scxml [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>',
        '<!DOCTYPE scxml [<!ENTITY file SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE scxml SYSTEM "http://example.org/scxml.dtd">',
    ],
)
def test_a_document_type_is_refused_before_any_entity_is_read(declaration: str) -> None:
    ((line, message),) = _faults(f"<?xml version='1.0'?>\n{declaration}\n<scxml><final id='a'/></scxml>")
    assert (line, "document type declaration is refused" in message) == (2, True)


def test_a_file_that_the_chart_names_is_read_and_its_faults_are_its_own() -> None:
    files = {"lines.json": "[1, 2]", "start.py": "n = 3", "child.scxml": "<scxml>\n<state id='a' initial='b'/></scxml>"}
    text = """<scxml><datamodel><data id="lines" src="file:lines.json"/></datamodel><script src="start.py"/>
        <state id="s"/></scxml>"""
    chart = parse(text, "order.scxml", files.__getitem__)
    assert chart.states[0].data[0].value.data == [1, 2]
    assert chart.script is not None
    assert chart.script.text == "n = 3"
    with pytest.raises(InvalidDefinition, match=r"child\.scxml:2:1: there is no state 'b'"):
        parse('<scxml><state id="s"><invoke src="child.scxml"/></state></scxml>', "order.scxml", files.__getitem__)


def test_a_delay_has_a_unit_and_an_end() -> None:
    assert [delay_milliseconds(text) for text in ("1.5s", ".5s", "250ms", " 2m ", "1h", "1d", "0s")] == [
        1_500, 500, 250, 120_000, 3_600_000, 86_400_000, 0,
    ]  # fmt: skip
    for text in ("", "5", "s", "-1s", "1e9s", "9" * 400 + "s", "40000d", "1.s", "inf s"):
        with pytest.raises(ValueError, match=r"is no delay|more than 100 years"):
            delay_milliseconds(text)


def test_editors_elements_and_attributes_are_passed_over() -> None:
    text = """<scxml xmlns="http://www.w3.org/2005/07/scxml" xmlns:q="urn:editor" q:x="1">
        <q:info/><state id="a" q:place="3;4"><q:info>text</q:info></state></scxml>"""
    assert [state.id for state in parse(text).states] == ["#0", "a"]
    assert describe(parse(text)) == ()


def test_what_is_not_supported_is_said_with_its_line() -> None:
    text = """<scxml datamodel="ecmascript">
        <state id="a" initail="b">
          <invoke type="http://example.org/other" src="x"/>
          <onentry><send type="http://www.w3.org/TR/scxml/#BasicHTTPEventProcessor" event="e" target="http://x"/></onentry>
          <transition event="e" cond="Math.pow(x, 2) > 3"/>
          <state id="b"/>
          <onexit><script>
            var x = function() {};
          </script></onexit>
        </state></scxml>"""
    notes = [(note.line, note.unsupported, note.message) for note in describe(parse(text))]
    assert [(line, unsupported) for line, unsupported, _ in notes] == [
        (2, False), (3, True), (4, True), (5, True), (7, True),
    ]  # fmt: skip
    for (_, _, message), part in zip(
        notes,
        ["did you mean 'initial'?", "only SCXML is invoked", "BasicHTTP", "no method 'pow'", "<script>"],
        strict=True,
    ):
        assert part in message


def test_equal_texts_have_one_digest_and_a_stored_chart_reads_strictly() -> None:
    text = '<scxml><state id="a"><onentry><log expr="1"/></onentry></state></scxml>'
    chart = parse(text)
    assert chart.digest == parse(text).digest != parse(text.replace('"1"', '"2"')).digest
    stored = encode_chart(chart)
    assert decode_chart(stored) == chart
    for bad in (stored + b"\0", stored[:-1], stored.replace(b"alog", b"xlog"), b"\xa0", b"\xbf\xff"):
        if bad != stored:
            with pytest.raises(ValueError):
                decode_chart(bad)
