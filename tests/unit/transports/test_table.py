"""Transports by verb: those of Holdfast, and one that a package adds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import OperatorError
from holdfast.journal.payload import Payload
from holdfast.transports import table

PACKAGE = """
from holdfast.transports.http.transport import HttpTransport


class Pigeon(HttpTransport):
    name = "pigeon"


class Misnamed(HttpTransport):
    name = "other"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that adds transports, installed here for one test."""
    (tmp_path / "pigeons.py").write_text(PACKAGE)
    about = tmp_path / "pigeons-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeons\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[holdfast.transports]\npigeon = pigeons:Pigeon\nbad = pigeons:Misnamed\ngone = pigeons:Nothing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    known = dict(table._loaded)
    yield tmp_path
    table._loaded.clear()
    table._loaded.update(known)
    sys.modules.pop("pigeons", None)


def test_holdfasts_own_are_found_by_their_verbs() -> None:
    for verb in ("http", "graphql"):
        found = table.find(verb)
        assert found is not None
        assert found.name == verb
        assert table.find(verb) is found


def test_a_verb_that_nobody_adds_is_not_found() -> None:
    assert table.find("smoke") is None
    assert not table.knows("smoke:signals/send")


@pytest.mark.parametrize("name", ["http", "orders.pay", "HTTP:a/get", "my.module:step", ":x"])
def test_a_name_that_is_no_transports_is_not_taken_for_one(name: str) -> None:
    """Steps and actions are named as their authors like."""
    assert not table.knows(name)
    assert table.effect_of(name, Payload(b"")) is None


def test_a_package_adds_a_transport(installed: Path) -> None:
    """It is loaded when its verb is first met."""
    assert table.find("http") is not None
    assert "pigeons" not in sys.modules
    pigeon = table.find("pigeon")
    assert pigeon is not None
    name, input = pigeon.write({"get": "https://loft.example/"}, {})
    effect = table.effect_of(name, input)
    assert effect is not None
    assert (effect.name, effect.connector) == ("pigeon:loft.example/get", "loft.example")


@pytest.mark.parametrize(("verb", "said"), [("bad", "other"), ("gone", "Nothing")])
def test_a_package_that_cannot_be_loaded_says_so(
    installed: Path, verb: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A definition is refused; a recorded call is one that nobody knows here, and the log says why."""
    with pytest.raises(OperatorError, match=said):
        table.find(verb)
    assert table.effect_of(f"{verb}:a/b", Payload(b"")) is None
    assert verb in caplog.text
