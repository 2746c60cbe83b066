"""``holdfast link``, and what ``holdfast serve --no-auth`` refuses to keep its key in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.main import main
from holdfast.server import kept_key
from holdfast.server.operator_key import key_file

STORE = "sqlite:////srv/shop.db"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def link(*options: str) -> Result:
    return CliRunner().invoke(main, ["link", "--store", STORE, *options])


def test_it_prints_the_link_or_the_key_of_a_server_that_was_started() -> None:
    key, other = kept_key(STORE, 8420), kept_key(STORE, 9000)
    assert link().stdout == f"http://127.0.0.1:8420/?key={key}\n"
    assert link("--port", "9000").stdout == f"http://127.0.0.1:9000/?key={other}\n"
    assert link("--key").stdout == f"{key}\n"
    file = str(key_file(STORE, 8420))
    assert json.loads(link("--json").stdout) == {
        "link": f"http://127.0.0.1:8420/?key={key}",
        "key": key,
        "key_file": file,
    }


def test_it_makes_no_key_and_says_what_is_missing() -> None:
    """A link that no server takes would mislead."""
    done = link("--port", "8421")
    assert (done.exit_code, done.stdout) == (5, "")
    assert "give its --store and --port here, too" in done.stderr
    assert not key_file(STORE, 8421).exists()


def test_a_server_does_not_start_with_a_key_that_others_may_know(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/shop.db"
    kept_key(store, 8420)
    key_file(store, 8420).chmod(0o644)
    done = CliRunner().invoke(main, ["serve", "--no-auth", "--store", store])
    assert (done.exit_code, done.stdout) == (5, "")
    assert "delete it, and start the server again" in done.stderr
    assert not (tmp_path / "shop.db").exists()
