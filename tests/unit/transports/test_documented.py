"""The page about transports says what is so."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
import pytest
import yaml

from holdfast import errors
from holdfast.journal.error_classes import error_class
from holdfast.journal.payload import Failure
from holdfast.transports import hosts, schemas, secrets, table
from holdfast.transports.connectors import READING, ConnectorOperation
from holdfast.transports.http import answer, sender
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "transports.md").read_text(encoding="utf-8")
BLOCKS: list[dict[str, Any]] = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


@pytest.mark.parametrize(("verb", "schema"), [("http", schemas.HTTP), ("graphql", schemas.GRAPHQL)])
def test_every_request_on_the_page_is_one(verb: str, schema: Any) -> None:
    """By the schema that editors have."""
    (request,) = [block[verb] for block in BLOCKS if verb in block]
    jsonschema_rs.validate(dict(schema), request)


def test_the_connectors_on_the_page_are_such() -> None:
    """And the call of one can be written."""
    (block,) = [block for block in BLOCKS if "connectors" in block]
    jsonschema_rs.validate(dict(schemas.CONNECTORS), block["connectors"])
    request = block["steps"][0]["ask"]["http"]
    jsonschema_rs.validate(dict(schemas.HTTP), request)
    transport = table.find("http")
    assert transport is not None
    name, _ = transport.write({**request, "with": {"id": 7, "full": True}, "key": "k"}, block["connectors"])
    assert name == "http:bureau/report"


KINDS = [
    *errors.TransportFailed.__subclasses__(),
    *errors.RequestRefused.__subclasses__(),
    errors.SecretMissing,
    errors.SecretRefused,
]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.__module__ == "holdfast.errors"])
def test_every_error_of_a_transport_is_on_the_page_with_its_class(kind: type[Exception]) -> None:
    """Its class is the one that a retry policy knows."""
    expected = error_class(Failure(f"holdfast.errors:{kind.__name__}", ""))
    assert re.search(rf"\| `{kind.__name__}` \| `{expected}` \|", PAGE)


def test_every_setting_and_member_is_on_the_page() -> None:
    """Whatever can be said is explained."""
    for name in (hosts.HOSTS, hosts.PRIVATE_HOSTS, secrets.PLACE, secrets.VARIABLE, table.GROUP):
        assert name in PAGE
    for member in (*schemas.COMMON, *ConnectorOperation.__struct_fields__):
        assert f"`{member}`" in PAGE, member


def test_the_limits_on_the_page_are_the_limits() -> None:
    assert f"{answer.LARGEST_ANSWER // 1024 // 1024} MiB" in PAGE
    assert f"{sender.TRY_SECONDS:.0f} unless it is given" in PAGE
    assert f"at most {answer.EXCERPT:,} characters" in PAGE
    assert sender.MOST_REDIRECTS == 5
    assert "At most five" in PAGE
    assert {"get", "head"} == READING
