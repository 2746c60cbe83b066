"""Secrets by name: where they are found, and that nothing but the request ever has their values."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.errors import SecretMissing, TransportFailed
from holdfast.programs.function.failures import describe
from holdfast.transports.secrets import SecretUse, value_of
from tests.unit.transports.calling import call
from tests.unit.transports.server import Reply, Request, Server, data, echo

SECRET = 's3cret/"u" +x'


def found(name: str) -> str:
    return asyncio.run(value_of(name, SecretUse("acme", "connector")))


def connectors(server: Server, auth: dict[str, Any] | None = None, **headers: Any) -> dict[str, Any]:
    operations = {"get": {"get": "/x"}, "put": {"put": "/x/{id}"}, "go": {"get": "/from", "redirect": True}}
    said: dict[str, Any] = {"base": server.url, "operations": operations, "headers": headers}
    return {"bureau": {**said, "auth": auth} if auth else said}


# -- where they are ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "variable"), [("TOKEN", "TOKEN"), ("token", "TOKEN"), ("a.b-c", "a_b_c")])
def test_a_secret_is_found_in_the_environment(monkeypatch: pytest.MonkeyPatch, name: str, variable: str) -> None:
    """Under its name, or that in capitals."""
    monkeypatch.setenv(f"HOLDFAST_SECRET_{variable}", "value")
    assert found(name) == "value"


def test_a_secret_is_found_in_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One file for each, as containers have it; a changed one counts at once, and the environment comes first."""
    (tmp_path / "TOKEN").write_text("one\n")
    monkeypatch.setenv("HOLDFAST_SECRETS", str(tmp_path))
    assert found("TOKEN") == "one"
    (tmp_path / "TOKEN").write_text("two\r\n")
    assert found("TOKEN") == "two"
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", "three")
    assert found("TOKEN") == "three"


@pytest.mark.parametrize(
    ("name", "text"), [("s.json", '{"TOKEN": "one", "PIN": 4711}'), ("s.yaml", "TOKEN: one\nPIN: 4711")]
)
def test_a_secret_is_found_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str) -> None:
    """A map in JSON or YAML."""
    (tmp_path / name).write_text(text)
    monkeypatch.setenv("HOLDFAST_SECRETS", str(tmp_path / name))
    assert (found("TOKEN"), found("PIN")) == ("one", "4711")


@pytest.mark.parametrize("name", ["../TOKEN", "a/b", ".hidden", "", "a b", "x" * 101])
def test_a_name_leads_nowhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """It is no path."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "TOKEN").write_text("x")
    (inside / ".hidden").write_text("x")
    monkeypatch.setenv("HOLDFAST_SECRETS", str(inside))
    with pytest.raises(SecretMissing):
        found(name)


@pytest.mark.parametrize("text", ["{", "[1]", "", "TOKEN: [", "TOKEN:"])
def test_a_file_that_cannot_be_read_is_never_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """Only where it is."""
    file = tmp_path / "s.yaml"
    file.write_text(f"{text}\n# s3cret")
    monkeypatch.setenv("HOLDFAST_SECRETS", str(file))
    with pytest.raises(SecretMissing) as raised:
        found("TOKEN")
    assert "s3cret" not in str(raised.value)


def test_a_missing_secret_says_where_it_is_looked_for() -> None:
    """And nothing is sent without it."""
    with pytest.raises(SecretMissing, match=r"HOLDFAST_SECRET_TOKEN.*HOLDFAST_SECRETS"):
        found("TOKEN")


def test_a_secret_with_a_lines_end_is_refused_and_not_quoted(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """It would be another header."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", "s3cret\r\nX: y")
    with pytest.raises(SecretMissing, match="control") as raised:
        call({"call": "bureau.get"}, connectors(server, {"bearer": "TOKEN"}))
    assert "s3cret" not in str(raised.value)
    assert not server.seen


def test_a_secret_beyond_ascii_is_refused_and_not_quoted(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """No header may have it; as a password it is sent in base64."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", "gehei\u00df")
    with pytest.raises(SecretMissing, match="ASCII") as raised:
        call({"call": "bureau.get"}, connectors(server, {"bearer": "TOKEN"}))
    assert "\u00df" not in str(raised.value)
    call({"call": "bureau.get"}, connectors(server, {"basic": {"username": "ann", "password": "TOKEN"}}))
    (request,) = server.seen
    assert base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode() == "ann:gehei\u00df"


# -- what is sent ------------------------------------------------------------------------------------------------------


def test_each_way_of_authorisation_is_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a header may be a secret on its own."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", SECRET)
    basic = {"basic": {"username": "ann", "password": "TOKEN"}}
    header = {"header": {"name": "X-Api-Key", "value": "TOKEN"}}
    for auth in ({"bearer": "TOKEN"}, basic, header):
        call({"call": "bureau.get"}, connectors(server, auth))
    call({"call": "bureau.get"}, connectors(server, **{"X-Other": {"secret": "TOKEN"}}))
    sent = [request.headers for request in server.seen]
    assert sent[0]["authorization"] == f"Bearer {SECRET}"
    assert base64.b64decode(sent[1]["authorization"].removeprefix("Basic ")).decode() == f"ann:{SECRET}"
    assert sent[2]["x-api-key"] == SECRET
    assert sent[3]["x-other"] == SECRET


def test_a_request_may_bring_its_own_values_along(server: Server) -> None:
    """They are the run's data, and are masked like secrets."""
    auth = {"basic": {"username": "ann", "password": {"value": "p4ssword"}}}
    given = call({"get": f"{server.url}/", "auth": auth, "give": "response"})
    assert base64.b64decode(server.seen[0].headers["authorization"].removeprefix("Basic ")) == b"ann:p4ssword"
    assert "p4ssword" not in json.dumps(given)
    assert server.seen[0].headers["authorization"].removeprefix("Basic ") not in json.dumps(given)


def test_credentials_go_to_no_other_place(server: Server, other: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect to another place has none of them; one within the same place has."""
    monkeypatch.setattr("holdfast.transports.http.network.is_public_address", lambda _: True)
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", SECRET)
    said = connectors(server, {"header": {"name": "X-Api-Key", "value": "TOKEN"}}, Authorization={"secret": "TOKEN"})
    server.behaviour = lambda request: (
        Reply(302, b"", {"Location": f"{other.url}/to"}) if request.path == "/from" else echo(request)
    )
    call({"call": "bureau.go"}, said)
    (request,) = other.seen
    assert not {"x-api-key", "authorization"} & request.headers.keys()
    server.behaviour = lambda request: (
        Reply(302, b"", {"Location": "/to"}) if request.path == "/from" else echo(request)
    )
    call({"call": "bureau.go"}, said)
    assert server.seen[-1].headers["x-api-key"] == SECRET


# -- what never has them -----------------------------------------------------------------------------------------------


def telling(status: int, kind: str = "application/json") -> Any:
    """A server that says all that it was sent, in every way it can."""

    def behave(request: Request) -> Reply:
        secrets = [value for name, value in request.headers.items() if name in ("authorization", "x-api-key")]
        plain = secrets[0].removeprefix("Bearer ").removeprefix("Basic ")
        said = {"all": request.headers, secrets[0]: 1, "quoted": quote(plain, safe=""), "twice": [plain + plain]}
        body = json.dumps(said) if kind == "application/json" else repr(said)
        headers = {"Content-Type": kind, "X-Echo": secrets[0]}
        return Reply(status, body.encode(), headers)

    return behave


AUTHS: list[dict[str, Any]] = [
    {"bearer": "TOKEN"},
    {"basic": {"username": "ann", "password": "TOKEN"}},
    {"header": {"name": "X-Api-Key", "value": "TOKEN"}},
]


def _forms() -> list[str]:
    pair = base64.b64encode(f"ann:{SECRET}".encode()).decode()
    return [SECRET, SECRET[:-2], quote(SECRET, safe=""), json.dumps(SECRET)[1:-1], pair]


@pytest.mark.parametrize("auth", AUTHS, ids=lambda auth: next(iter(auth)))
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream"])
@pytest.mark.parametrize("give", ["content", "response", "raw"])
def test_what_a_call_gives_quotes_no_secret(
    server: Server, monkeypatch: pytest.MonkeyPatch, auth: dict[str, Any], kind: str, give: str
) -> None:
    """Although the server says it all back."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", SECRET)
    server.behaviour = telling(200, kind)
    given = call({"call": "bureau.get", "give": give}, connectors(server, auth))
    text = base64.b64decode(given).decode() if give == "raw" else json.dumps(given, ensure_ascii=False) + repr(given)
    assert "[secret]" in text
    for form in _forms():
        assert form not in text


@pytest.mark.parametrize("auth", AUTHS, ids=lambda auth: next(iter(auth)))
@pytest.mark.parametrize("status", [301, 401, 404, 500])
@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
def test_what_a_failure_keeps_quotes_no_secret(
    server: Server, monkeypatch: pytest.MonkeyPatch, auth: dict[str, Any], status: int, kind: str
) -> None:
    """Neither its message nor its details, nor the place where it was raised."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", SECRET)
    server.behaviour = telling(status, kind)
    with pytest.raises(TransportFailed) as raised:
        call({"call": "bureau.get"}, connectors(server, auth))
    failure = describe(raised.value)
    text = "".join(failure.fields()) + repr(raised.value.members)
    assert "[secret]" in text
    for form in _forms():
        assert form not in text


def test_a_redirect_quotes_no_secret(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may put it into the address that it leads to."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", "s3cret")

    def behave(request: Request) -> Reply:
        return Reply(302, b"", {"Location": "/s3cret?x=s3cret"}) if request.path == "/from" else data({}, 404)

    server.behaviour = behave
    with pytest.raises(TransportFailed) as raised:
        call({"call": "bureau.go"}, connectors(server, {"bearer": "TOKEN"}))
    assert "s3cret" not in "".join(describe(raised.value).fields())


def test_the_log_quotes_no_secret(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However much of it is wanted: the HTTP library logs headers."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", "s3cret")
    caplog.set_level(logging.DEBUG)
    server.behaviour = telling(200)
    call({"call": "bureau.get"}, connectors(server, {"bearer": "TOKEN"}))
    assert "s3cret" not in caplog.text
    assert "headers" not in caplog.text


def test_short_secrets_are_masked_as_words(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside other words they would be found everywhere; a number is masked where it is long enough."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", "4711")
    server.behaviour = lambda _: data({"pin": 4711, "count": 47, "said": "pin 4711"})
    given = call({"call": "bureau.get"}, connectors(server, {"bearer": "TOKEN"}))
    assert given == {"pin": "[secret]", "count": 47, "said": "pin [secret]"}
