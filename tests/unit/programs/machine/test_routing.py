"""Routing: an event reaches the cells that its subscriptions name, in the manifest's order, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import SchemaMismatch
from holdfast.journal import cbor
from holdfast.programs.machine.declarations import declare, schemas_of
from holdfast.programs.machine.manifest import MachineManifest, MachineSubscription
from holdfast.programs.machine.manifest_reader import read_document
from holdfast.programs.machine.routing import LONGEST_KEY_BYTES, UNKEYED, CellDelivery, EventRouter
from tests.unit.programs.machine import samples
from tests.unit.programs.machine.samples import desk, order, statistics, transfers

SHOP = declare([statistics(), order(), desk(), transfers()])
ROUTER = EventRouter(SHOP.manifest, SHOP.schemas)


def routed(value: Any, router: EventRouter = ROUTER) -> list[CellDelivery]:
    """The deliveries of a value of one of the shop's events."""
    (name,) = (name for name, found in SHOP.schemas.items() if found.kind is type(value))
    return router.route(name, SHOP.schemas[name].encode(value))


def test_an_event_goes_to_each_machine_that_takes_it_in_the_manifests_order() -> None:
    assert routed(samples.Placed("o1", 5)) == [
        CellDelivery("statistics", UNKEYED, "app/Placed@1"),
        CellDelivery("order", cbor.write("o1"), "app/Placed@1"),
    ]
    turned = declare([order(), statistics()])
    assert [each.machine for each in routed(samples.Placed("o1", 5), EventRouter(turned.manifest, turned.schemas))] == [
        "order",
        "statistics",
    ]


def test_a_key_may_stand_inside_the_event() -> None:
    assert routed(samples.Asked(samples.Customer(7), "?")) == [CellDelivery("desk", cbor.write(7), "desk/Asked@2")]


def test_an_event_that_nobody_subscribes_to_reaches_nobody() -> None:
    assert EventRouter(MachineManifest(schemas={"app/Placed@1": {}}), {}).route("app/Placed@1", b"\xa0") == []
    assert routed(samples.Paid("o1", "p"), EventRouter(declare([order()]).manifest, {})) == []


def two_ways() -> EventRouter:
    extra = MachineSubscription(event="app/Moved@1", machine="transfers", key_field="target")
    document = {
        "subscriptions": [
            {"event": "app/Moved@1", "machine": "transfers", "key_field": "source"},
            {"event": extra.event, "machine": extra.machine, "key_field": extra.key_field},
        ]
    }
    manifest = read_document(document, SHOP.manifest)
    return EventRouter(manifest, schemas_of(manifest, SHOP.schemas))


def test_an_event_may_go_to_two_cells_of_a_machine_and_to_each_only_once() -> None:
    router = two_ways()
    assert [each.key for each in routed(samples.Moved("a", "b"), router)] == [cbor.write("a"), cbor.write("b")]
    assert [each.key for each in routed(samples.Moved("a", "a"), router)] == [cbor.write("a")]


def test_an_event_of_no_schema_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="Declare it in a machine"):
        ROUTER.route("app/Nothing@1", b"\xa0")
    with pytest.raises(SchemaMismatch, match="no schema of that name"):
        ROUTER.route("no name", b"\xa0")


def test_an_event_of_an_older_version_is_refused_and_the_present_one_named() -> None:
    with pytest.raises(SchemaMismatch, match="There is desk/Asked@2: emit that"):
        ROUTER.route("desk/Asked@1", b"\xa0")


def test_an_event_without_its_key_is_refused_with_the_field() -> None:
    with pytest.raises(SchemaMismatch, match=r"'customer\.number' is null") as caught:
        routed(samples.Asked(samples.Customer(None), "?"))
    assert caught.value.field == "customer.number"
    for data, field in (({}, "customer"), ({"customer": 5}, "customer.number"), ({"customer": {}}, "customer.number")):
        with pytest.raises(SchemaMismatch, match="has no key for machine 'desk'") as caught:
            ROUTER.route("desk/Asked@2", cbor.write(data))
        assert caught.value.field == field


@pytest.mark.parametrize("key", ["7", 7.0, True, [7], {"n": 7}, b"7"])
def test_a_key_of_another_type_is_refused_with_the_field(key: object) -> None:
    """Nothing is converted: a key as text and as a number would be two cells."""
    with pytest.raises(SchemaMismatch, match="no key of machine 'desk'") as caught:
        ROUTER.route("desk/Asked@2", cbor.canonical({"customer": {"number": key}, "words": ""}))
    assert caught.value.field == "customer.number"


def test_a_key_has_a_limit() -> None:
    longest = "x" * (LONGEST_KEY_BYTES - 3)
    assert len(routed(samples.Placed(longest, 5))[1].key) == LONGEST_KEY_BYTES
    with pytest.raises(SchemaMismatch, match="the limit is 1,024"):
        routed(samples.Placed(longest + "x", 5))


def test_bytes_that_are_not_canonical_are_refused() -> None:
    with pytest.raises(SchemaMismatch, match="send canonical CBOR"):
        ROUTER.route("app/Placed@1", b"\xbf\xff")
