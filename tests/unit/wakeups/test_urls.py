"""A driver from its URL: what cannot be used is refused at once, and no secret is shown."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import suppress

import pytest

from holdfast import Holdfast, SyncHoldfast
from holdfast.errors import ExtraMissing, UnsupportedWakeups
from holdfast.wakeups.redis import RedisWakeups
from holdfast.wakeups.urls import wakeups_of


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("amqp://broker", "names no driver of wake-ups: use redis://HOST"),
        ("broker:6379", "names no driver"),
        ("redis://", "names no server"),
        ("redis:///3", "names no server"),
        ("unix://", "names no server"),
        ("redis://broker:many", "cannot be read"),
        ("redis://broker:99999", "cannot be read"),
        ("redis://[broker", "cannot be read"),
        ("redis://broker/shop", "a database of Redis is a number"),
    ],
)
def test_a_wrong_url_is_refused_when_the_engine_is_made(url: str, says: str) -> None:
    """Not later, and not in a log."""
    with pytest.raises(UnsupportedWakeups, match=says):
        Holdfast("memory://", wakeups=url)


@pytest.mark.parametrize("given", [7, object(), ["redis://broker"]])
def test_an_object_that_carries_nothing_is_refused(given: object) -> None:
    """The error says what it lacks."""
    with pytest.raises(UnsupportedWakeups, match="an object with publish, listen and close"):
        Holdfast("memory://", wakeups=given)  # type: ignore[arg-type]


def test_no_secret_is_shown() -> None:
    """Neither in an error nor where the driver is named."""
    with pytest.raises(UnsupportedWakeups) as error:
        wakeups_of("amqp://ann:secret@broker/1?password=secret")
    assert "secret" not in str(error.value)
    for password in ("sec/ret", "sec?ret", "sec#ret", "sec@ret", "se/c@ret"):
        for url in (
            f"redis://ann:{password}@broker",
            f"amqp://ann:{password}@broker",
            f"redis://broker:x?p={password}",
        ):
            with suppress(UnsupportedWakeups):
                assert str(wakeups_of(url)) in ("redis://broker", "redis://…")
                continue
            with pytest.raises(UnsupportedWakeups) as error:
                wakeups_of(url)
            assert "ret" not in str(error.value), url
            assert "sec" not in str(error.value), url
    assert str(wakeups_of("rediss://ann:secret@broker:6380/1?ssl_cert_reqs=none")) == "rediss://broker:6380/1"
    assert str(wakeups_of("unix://:secret@/run/redis.sock")) == "unix:///run/redis.sock"


def test_none_is_none() -> None:
    """A missing setting means that there are no wake-ups."""
    assert wakeups_of(None) is None
    assert wakeups_of("") is None
    assert Holdfast("memory://").neighbours.wakeups is None


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked for when the engine is made, and imported when the first connection is made."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match=r"pip install 'holdfast\[redis\]'"):
        Holdfast("memory://", wakeups="redis://broker")


def test_a_synchronous_engine_takes_them_too() -> None:
    """And refuses the same."""
    with pytest.raises(UnsupportedWakeups):
        SyncHoldfast("memory://", wakeups="amqp://broker").open()
    assert isinstance(wakeups_of("redis://broker"), RedisWakeups)
    assert "redis" in sys.modules or importlib.util.find_spec("redis") is not None
