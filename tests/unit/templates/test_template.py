"""Templates: one table decides what may be done, and a start is what the template says."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import cbor2
import pytest

from holdfast import workflow
from holdfast.errors import InvalidArguments, StoreCorrupt, TemplateConflict
from holdfast.runs.birth import Trigger
from holdfast.store import protocol as p
from holdfast.templates import template as t
from holdfast.templates.start import called_with, instance_start, laid_over

NOW = 1_800_000_000_000_000
DIGEST = "ab" * 32


@workflow
async def send_letters(count: int, to: str = "all") -> int:
    return count


def row(status: str = "active", **changes: Any) -> p.ItemRow:
    program = t.TemplateProgram("definition", "billing", 3, DIGEST)
    template = t.Template(**{"name": "Billing", "program": program, **changes})
    return p.ItemRow("acme", t.TEMPLATE, "billing", 4, t.write_template(template), status)


def test_the_table_in_the_docstring_is_the_one_that_decides() -> None:
    """Every pair of a status and an act is allowed by the table or refused with the status in the message."""
    drawn = [
        line.split() for line in (t.__doc__ or "").splitlines() if line.split()[:1] and line.split()[0] in t.STATUSES
    ]
    drawn_table = {(words[0], " ".join(words[1:-1])): words[-1] for words in drawn}
    assert drawn_table == dict(t.TRANSITIONS)
    for status, act in itertools.product(t.STATUSES, get_args(t.TemplateAct)):
        if (status, act) in t.TRANSITIONS:
            assert t.next_status(row(status), act) == t.TRANSITIONS[status, act]
        else:
            with pytest.raises(TemplateConflict, match=f"is {status}"):
                t.next_status(row(status), act)


def test_a_template_is_read_as_it_was_written() -> None:
    template = t.Template(
        name="Billing",
        program=t.function_program("bill"),
        trigger="event",
        owner="ann",
        version=2,
        caps=t.TemplateCaps(3, 60),
        input={"count": 1},
        route=t.EventRoute("order.paid", "event.data.total > 10.0", "event.data"),
    )
    kept = p.ItemRow("acme", t.TEMPLATE, "billing", 1, t.write_template(template), "draft")
    assert t.read_template(kept) == template
    with pytest.raises(StoreCorrupt, match="billing"):
        t.read_template(p.ItemRow("acme", t.TEMPLATE, "billing", 1, b"{}", "draft"))
    with pytest.raises(StoreCorrupt, match="lost"):
        t.status_of(row("lost"))


@pytest.mark.parametrize("status", ["draft", "paused", "archived"])
def test_only_an_active_template_starts(status: str) -> None:
    """The error says what the template is."""
    with pytest.raises(TemplateConflict, match=status):
        instance_start(row(status), None, "one", None, "", None, NOW)


def test_an_instance_of_a_definition_pins_what_the_template_pins() -> None:
    """By digest, with the attributes by which it is found and the condition that the template has not changed."""
    trigger = Trigger("schedule", "nightly")
    start = instance_start(row(input={"a": 1, "b": 1}), {"b": 2}, "one", trigger, "north", "ann", NOW)
    assert start.expect == p.ExpectItem(p.ItemKey("acme", "template", "billing"), 4)
    change = start.change
    assert (change.key, change.workflow, change.program_kind) == (p.Key("acme", "one"), "billing", "definition")
    assert change.code_digest == bytes.fromhex(DIGEST)
    assert change.attributes == {"template": "billing", "template_version": "1"}
    assert change.origin == p.Origin("north", "ann", "schedule", "nightly")
    assert cbor2.loads(start.birth.input.data) == [[{"a": 1, "b": 2}], {}]


def test_an_instance_of_a_function_is_checked_where_the_function_is_known() -> None:
    given = row(program=t.function_program("send_letters"))
    functions = {"send_letters": send_letters}
    start = instance_start(given, {"count": 3}, "one", None, "", None, NOW, functions=functions)
    assert start.birth.pin.digest == send_letters.digest
    with pytest.raises(InvalidArguments):
        instance_start(given, {"letters": 3}, "one", None, "", None, NOW, functions=functions)
    unknown = instance_start(given, {"letters": 3}, "one", None, "", None, NOW)
    assert cbor2.loads(unknown.birth.input.data) == [[], {"letters": 3}]


@pytest.mark.parametrize(
    ("default", "input", "expected"),
    [
        (None, None, None),
        ({"a": 1}, None, {"a": 1}),
        ({"a": 1, "b": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, 5, 5),
        (5, {"a": 1}, {"a": 1}),
    ],
)
def test_an_input_is_laid_over_the_templates_own(default: Any, input: Any, expected: Any) -> None:
    assert laid_over(default, input) == expected


def test_a_map_gives_arguments_by_name_and_anything_else_is_the_only_one() -> None:
    assert called_with(None) == ((), {})
    assert called_with({"a": 1}) == ((), {"a": 1})
    assert called_with([1, 2]) == (([1, 2],), {})
