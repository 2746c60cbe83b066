"""Canonical CBOR against what others publish: RFC 8949, DAG-CBOR's fixtures, AgentOS's vectors.

Our profile is plain data in length-first canonical form (RFC 8949 §4.2.3) with floats as short as they go, without tags
but those of large whole numbers. What is outside of it must be refused, never read as something else.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest

from holdfast.journal import cbor
from tests.acceptance.corpora import CORPORA
from tests.tables import table

CBOR = CORPORA / "cbor"
VECTORS = CORPORA / "agentos" / "test-vectors"
SELF_DESCRIBED = bytes.fromhex("d9d9f7")  # the tag 55799, which AgentOS puts before all its bytes

pytestmark = pytest.mark.skipif(
    not (CBOR.exists() and VECTORS.exists()), reason="the corpora of CBOR are not here: set HOLDFAST_CORPORA"
)


def appendix_a() -> list[dict[str, Any]]:
    path = CBOR / "rfc8949-appendix_a.json"
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return found


def is_outside(example: dict[str, Any]) -> bool:
    """Whether an example of the RFC is none of plain data: a tag, or a simple value without a meaning."""
    data = bytes.fromhex(example["hex"])
    is_tag = data[0] >> 5 == 6 and data[0] & 31 not in (2, 3)
    return is_tag or example.get("diagnostic", "").startswith(("undefined", "simple"))


DIAGNOSED: dict[str, object] = {
    "Infinity": math.inf,
    "-Infinity": -math.inf,
    "h''": b"",
    "h'01020304'": b"\1\2\3\4",
    "{1: 2, 3: 4}": {1: 2, 3: 4},
}


@table("example", appendix_a(), ids=lambda example: example["hex"])
def test_the_examples_of_the_rfc_are_read_and_written_or_refused(example: dict[str, Any]) -> None:
    """Canonical bytes give the value and are given by it; other forms of a value, and tags, are refused."""
    data = bytes.fromhex(example["hex"])
    if is_outside(example) or not example["roundtrip"]:
        with pytest.raises(cbor.NotCanonical):
            cbor.read(data)
        return
    value = cbor.read(data)
    assert cbor.canonical(value) == data
    if example.get("diagnostic") == "NaN":
        assert isinstance(value, float)
        assert math.isnan(value)
    else:
        expected = example["decoded"] if "decoded" in example else DIAGNOSED[example["diagnostic"]]
        assert (value, type(value)) == (expected, type(expected))


LONG_FORMS = [each for each in appendix_a() if not each["roundtrip"] and "decoded" in each]


@pytest.mark.parametrize("example", LONG_FORMS, ids=lambda each: each["hex"])
def test_a_longer_form_is_written_in_the_shortest(example: dict[str, Any]) -> None:
    """The value of an example that is not canonical has one canonical form, which is read back as the same value."""
    assert cbor.read(cbor.canonical(example["decoded"])) == example["decoded"]
    assert cbor.canonical(example["decoded"]) != bytes.fromhex(example["hex"])


def fixtures() -> list[Path]:
    return sorted((CBOR / "fixtures").glob("*/*.dag-cbor"))


def name_of(path: Path) -> str:
    return path.parent.name


def shortened(data: bytes) -> bytes | None:
    """Bytes of DAG-CBOR with each float as short as it goes; None if there is a tag. An independent reading of the
    same bytes: heads, and the items in them."""
    parts, place, waiting = list[bytes](), 0, 1
    while waiting:
        waiting -= 1
        head = data[place]
        major, extra = head >> 5, head & 31
        size = 1 << (extra - 24) if 24 <= extra <= 27 else 0
        number = int.from_bytes(data[place + 1 : place + 1 + size]) if size else extra
        end = place + 1 + size
        if major == 6:
            return None
        if major in (2, 3):
            end += number
        elif major in (4, 5):
            waiting += number * (major - 3)
        parts.append(_short_float(data[place:end]) if (major, extra) == (7, 27) else data[place:end])
        place = end
    assert place == len(data)
    return b"".join(parts)


def _short_float(item: bytes) -> bytes:
    (value,) = struct.unpack(">d", item[1:])
    for head, form in ((0xF9, ">e"), (0xFA, ">f")):
        try:
            written = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, written)[0] == value:
            return bytes((head,)) + written
    return item


@table("fixture", fixtures(), ids=name_of)
def test_a_dag_cbor_fixture_is_canonical_but_for_long_floats_and_links(fixture: Path) -> None:
    """DAG-CBOR has our order of members and our numbers. Its floats always take eight bytes and its links are tags: we
    refuse both forms, and accept the same data with short floats."""
    data = fixture.read_bytes()
    short = shortened(data)
    if short is None:
        with pytest.raises(cbor.NotCanonical, match="tag"):
            cbor.read(data)
        return
    if short != data:
        with pytest.raises(cbor.NotCanonical, match="canonical form"):
            cbor.read(data)
    assert cbor.canonical(cbor.read(short)) == short


def test_the_fixtures_are_of_all_three_sorts() -> None:
    """The test above is of worth only if it meets plain fixtures, links and long floats."""
    forms = [(path.read_bytes(), shortened(path.read_bytes())) for path in fixtures()]
    assert sum(short is None for _, short in forms) >= 20
    assert sum(short not in (None, data) for data, short in forms) >= 4
    assert sum(short == data for data, short in forms) >= 60


def refused() -> list[dict[str, str]]:
    files = sorted((CBOR / "negative-fixtures" / "dag-cbor" / "decode").glob("*.json"))
    return [example for path in files for example in json.loads(path.read_text())]


@pytest.mark.parametrize("example", refused(), ids=lambda example: example["name"])
def test_what_dag_cbor_refuses_is_refused(example: dict[str, str]) -> None:
    with pytest.raises(cbor.NotCanonical):
        cbor.read(bytes.fromhex(example["hex"]))


def agentos() -> list[dict[str, Any]]:
    return [vector for path in sorted(VECTORS.glob("*.json")) for vector in json.loads(path.read_text())]


@pytest.mark.parametrize("vector", agentos(), ids=lambda vector: vector["label"])
def test_agentos_writes_the_same_bytes_after_its_tag(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["cbor_hex"])
    assert data.startswith(SELF_DESCRIBED)
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == vector["hash"]
    assert cbor.canonical(vector["json"]) == data.removeprefix(SELF_DESCRIBED)
    assert cbor.read(data.removeprefix(SELF_DESCRIBED)) == vector["json"]
    with pytest.raises(cbor.NotCanonical):
        cbor.read(data)
