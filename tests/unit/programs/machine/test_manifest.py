"""The manifest: made from declarations or read from a text, named by its content, and refused for all that is wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import DuplicateName, InvalidFunction, InvalidManifest
from holdfast.programs.machine.declarations import declare, schemas_of
from holdfast.programs.machine.manifest import (
    MachineLimits,
    MachineManifest,
    MachineSubscription,
    decode_manifest,
    encode_manifest,
    manifest_digest,
)
from holdfast.programs.machine.manifest_reader import read_document, read_manifest
from tests.unit.programs.machine import samples
from tests.unit.programs.machine.samples import desk, order, statistics, transfers

SHOP = declare([order(), desk(), statistics()])

WRITTEN = """\
schemas:
  acme/Order@1: {type: object}
  acme/Placed@1:
    type: object
    properties: {order: {type: object, properties: {id: {type: string}, cents: {type: integer}}}}
effects: [charge, {name: refund, params: acme/Placed@1}]
machines:
  - name: order
    state: acme/Order@1
    events: [acme/Placed@1, sys/Settled@1]
    key: sys/Text@1
    effects: [charge]
    limits: {effects: 8}
    hash: '00'
subscriptions:
  - {event: acme/Placed@1, machine: order, key_field: order.id}
"""


def test_declarations_make_a_manifest() -> None:
    machine = SHOP.manifest.machine("order")
    assert machine is not None
    assert machine.state == "app/Order@1"
    assert machine.events == ("app/Placed@1", "app/Expired@1", "sys/Settled@1")
    assert machine.key == "sys/Text@1"
    assert (machine.effects, machine.emits) == (("charge",), ("app/Paid@1",))
    assert SHOP.manifest.machine("nobody") is None
    desk_machine = SHOP.manifest.machine("desk")
    assert desk_machine is not None
    assert desk_machine.key == "sys/Integer@1"
    assert [(each.event, each.machine, each.key_field) for each in SHOP.manifest.subscriptions] == [
        ("app/Placed@1", "order", "order_id"),
        ("app/Expired@1", "order", "order_id"),
        ("desk/Asked@2", "desk", "$value.customer.number"),
        ("app/Placed@1", "statistics", None),
        ("app/Paid@1", "statistics", None),
    ]
    assert sorted(SHOP.manifest.schemas) == [
        "app/Expired@1",
        "app/Order@1",
        "app/Paid@1",
        "app/Placed@1",
        "app/Totals@1",
        "desk/Asked@2",
    ]
    assert "sys/Settled@1" not in SHOP.schemas


def test_a_key_for_some_events_leaves_the_others_to_the_machine_itself() -> None:
    found = declare([order(key={samples.Placed: "order_id"})])
    assert [each.event for each in found.manifest.subscriptions] == ["app/Placed@1"]


def test_equal_manifests_have_one_digest_and_any_change_another() -> None:
    again = declare([order(), desk(), statistics()]).manifest
    assert manifest_digest(again) == manifest_digest(SHOP.manifest)
    others = [
        declare([order(version=2), desk(), statistics()]),
        declare([order(hash="cd" * 32), desk(), statistics()]),
        declare([order(limits=MachineLimits(effects=3)), desk(), statistics()]),
        declare([statistics(), order(), desk()]),  # another order of deliveries
        declare([order(), desk()]),
    ]
    assert len({manifest_digest(each.manifest) for each in (SHOP, *others)}) == 6


def test_the_order_of_machines_without_subscriptions_does_not_matter() -> None:
    machines = SHOP.manifest.machines
    turned = msgspec.structs.replace(SHOP.manifest, machines=machines[::-1])
    assert encode_manifest(turned) == encode_manifest(SHOP.manifest)


def test_a_manifest_is_read_from_its_bytes_and_from_no_others() -> None:
    data = encode_manifest(SHOP.manifest)
    assert decode_manifest(data) == SHOP.manifest
    for wrong in (b"", b"\x80", b"\x82\x02\xa0", b"\x82\x01\xa0", data + b"\0", data[:-1]):
        with pytest.raises(InvalidManifest, match="apply the manifest again"):
            decode_manifest(wrong)


@settings(deadline=None)
@given(st.data())
def test_a_changed_byte_is_refused_or_gives_another_manifest(data: st.DataObject) -> None:
    changed = bytearray(encode_manifest(SHOP.manifest))
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = decode_manifest(bytes(changed))
    except InvalidManifest:
        return
    assert encode_manifest(found) == changed


def test_a_manifest_is_written_in_yaml_or_json() -> None:
    found = read_manifest(WRITTEN)
    (machine,) = found.machines
    assert machine.limits == MachineLimits(effects=8)
    assert [effect.name for effect in found.effects] == ["charge", "refund"]
    assert read_manifest(msgspec.json.encode(found).decode()) == found


def test_a_written_manifest_can_name_what_code_declares() -> None:
    text = "machines: [order]\nsubscriptions: [{event: app/Placed@1, machine: order, key_field: order_id}]"
    found = read_manifest(text, SHOP.manifest)
    assert [machine.name for machine in found.machines] == ["order"]
    assert found.schemas == SHOP.manifest.schemas
    assert found.effects == SHOP.manifest.effects
    assert len(found.subscriptions) == 1
    assert read_manifest("subscriptions: []", SHOP.manifest).machines == SHOP.manifest.machines


def test_types_of_code_serve_where_a_manifest_has_their_schema() -> None:
    found = read_manifest("schemas: {app/Paid@1: {type: object}}", SHOP.manifest)
    table = schemas_of(found, SHOP.schemas)
    assert table["app/Placed@1"].kind is samples.Placed
    assert table["app/Paid@1"].kind is Any
    with pytest.raises(InvalidManifest, match="app/Bad@1 is no JSON Schema"):
        schemas_of(read_manifest("schemas: {app/Bad@1: {type: nonsense}}"), {})


def test_all_that_cannot_be_read_is_told_at_once_with_its_place() -> None:
    text = """\
machines:
  - {name: order, state: 5, events: app/Placed@1, keys: sys/Text@1}
  - 7
  - ticket
schemas: {a/B@1: text}
subscriptions:
  - {event: app/Placed@1, machin: order}
  - {event: app/Placed@1, machine: order, key_field: [x]}
routing: {}
"""
    with pytest.raises(InvalidManifest) as caught:
        read_manifest(text, SHOP.manifest, file="shop.yaml")
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "shop.yaml:2:19",
        "shop.yaml:2:29",
        "shop.yaml:2:51",
        "shop.yaml:3:5",
        "shop.yaml:4:5",
        "shop.yaml:5:11",
        "shop.yaml:7:5",
        "shop.yaml:7:27",
        "shop.yaml:8:43",
        "shop.yaml:9:1",
    ]
    assert "did you mean 'key'?" in lines[2]
    assert "'ticket' is declared by no code" in lines[4]
    assert "'machine' is missing" in lines[6]
    assert len(caught.value.faults) == 10


@pytest.mark.parametrize("text", ["", "[]", "5", "machines: {", "a: 1\na: 2", "machines: 5", "machines: [&a [*a]]"])
def test_a_text_that_is_no_manifest_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(InvalidManifest, match=r"^manifest:1|^manifest:2"):
        read_manifest(text)


def test_all_that_does_not_fit_together_is_told_at_once() -> None:
    text = """\
schemas:
  app/Placed@1: {type: object, properties: {id: {type: integer}, note: {anyOf: [{type: string}, {type: 'null'}]}}}
  sys/Mine@1: {}
  Nameless: {}
effects: [charge, charge]
machines:
  - {name: order, version: 0, state: app/Oder@1, events: [app/Placed@1], key: sys/Text@1, effects: [chrge]}
  - {name: order, state: app/Placed@1, events: [], limits: {events: 0}, key: sys/Word@1}
  - {name: plain, state: app/Placed@1, events: [sys/Settled@1]}
subscriptions:
  - {event: app/Placed@1, machine: nobody}
  - {event: app/Plased@1, machine: plain}
  - {event: app/Placed@1, machine: plain}
  - {event: app/Placed@1, machine: plain, key_field: id}
"""
    with pytest.raises(InvalidManifest) as caught:
        read_manifest(text)
    told = str(caught.value)
    for words in (
        "the namespace 'sys' is the engine's",
        "'Nameless' is no name of a schema",
        "two effects are called 'charge'",
        "a version is 1 or more",
        "there is no schema 'app/Oder@1'",
        "there is no effect 'chrge': did you mean 'charge'?",
        "two machines are called 'order'",
        "hears no event",
        "a limit is 1 or more",
        "there is no schema 'sys/Word@1'",
        "there is no machine 'nobody'",
        "there is no schema 'app/Plased@1': did you mean 'app/Placed@1'?",
        "machine 'plain' does not take app/Placed@1: add it to its events",
        "machine 'plain' has no key: leave key_field out",
    ):
        assert words in told, words


def keyed(key: str, *fields: str | None) -> dict[str, Any]:
    subscriptions = [
        {"event": "app/E@1", "machine": "m"} | ({} if field is None else {"key_field": field}) for field in fields
    ]
    deep = {"type": "object", "properties": {"id": {"$ref": "#/$defs/Id"}}}
    properties = {
        "text": {"type": "string"},
        "number": {"type": "integer"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "uuid": {"type": "string", "format": "uuid"},
        "deep": deep,
        "colour": {"enum": ["red", "blue"]},
        "free": {},
    }
    return {
        "schemas": {"app/E@1": {"type": "object", "properties": properties, "$defs": {"Id": {"type": "string"}}}},
        "machines": [{"name": "m", "state": "app/E@1", "events": ["app/E@1"], "key": key}],
        "subscriptions": subscriptions,
    }


@pytest.mark.parametrize("field", ["text", "maybe", "deep.id", "$value.deep.id", "colour", "free", "free.anything"])
def test_a_key_field_of_the_keys_type_is_accepted(field: str) -> None:
    assert read_document(keyed("sys/Text@1", field)).subscriptions[0].key_field == field


BAD_KEYS = {
    "none": ("sys/Text@1", None, "say with key_field where it is"),
    "not there": ("sys/Text@1", "nothing", "'nothing' is no field of it"),
    "not there inside": ("sys/Text@1", "deep.no", "'deep.no' is no field of it"),
    "inside a text": ("sys/Text@1", "text.id", "'text.id' is no field of it"),
    "a number": ("sys/Text@1", "number", "is not of the type of the key, which is sys/Text@1"),
    "a text": ("sys/Integer@1", "text", "is not of the type of the key, which is sys/Integer@1"),
    "an id": ("sys/Text@1", "uuid", "is not of the type of the key"),
    "an object": ("sys/Text@1", "deep", "is not of the type of the key"),
    "an empty name": ("sys/Text@1", "deep..id", "is no key field"),
    "the whole": ("sys/Text@1", "$value", "is no key field"),
    "another word": ("sys/Text@1", "$tag.id", "is no key field"),
}


@pytest.mark.parametrize(("key", "field", "words"), BAD_KEYS.values(), ids=BAD_KEYS)
def test_a_key_field_that_can_give_no_key_is_refused(key: str, field: str | None, words: str) -> None:
    with pytest.raises(InvalidManifest) as caught:
        read_document(keyed(key, field))
    assert words in str(caught.value)


def test_two_identical_subscriptions_are_refused_and_two_keys_of_one_event_are_not() -> None:
    with pytest.raises(InvalidManifest, match="hears app/E@1 twice by the same key"):
        read_document(keyed("sys/Text@1", "text", "text"))
    assert len(read_document(keyed("sys/Text@1", "text", "deep.id")).subscriptions) == 2


def test_declarations_that_do_not_fit_together_are_refused() -> None:
    @dataclass
    class Placed:
        """Another type of the same name."""

        order_id: int

    with pytest.raises(DuplicateName, match=r"samples.Placed and .*Placed are both the schema app.Placed@1: .*@schema"):
        declare([order(), statistics(events=(Placed,))])
    with pytest.raises(InvalidManifest, match="'number' is no field of it"):
        declare([order(key="number")])
    with pytest.raises(InvalidFunction, match="one type in all events"):
        declare(
            [
                order(
                    events=(samples.Expired, samples.Asked),
                    key={samples.Expired: "order_id", samples.Asked: "customer.number"},
                )
            ]
        )
    with pytest.raises(InvalidFunction, match="is no key field"):
        declare([order(key="order..id")])
    with pytest.raises(InvalidFunction, match="which it does not take"):
        declare([order(key={samples.Paid: "order_id"})])
    with pytest.raises(InvalidManifest, match="two machines are called 'order'"):
        declare([order(), order()])
    with pytest.raises(InvalidManifest, match="a limit is 1 or more"):
        declare([transfers(limits=MachineLimits(events=0))])


def test_reading_no_text_loads_no_yaml() -> None:
    modules = ", ".join(f"holdfast.programs.machine.{name}" for name in ("declarations", "manifest_reader", "routing"))
    code = f"import sys, {modules}; assert 'yaml' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_empty_manifest_is_one() -> None:
    assert decode_manifest(encode_manifest(MachineManifest())) == MachineManifest()
    assert MachineSubscription(event="a", machine="b").key_field is None
