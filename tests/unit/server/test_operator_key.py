"""The file of an operator's key: made once, for its user alone, and refused where it is not safe."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import InvalidOperatorKey
from holdfast.server import kept_key
from holdfast.server.operator_key import found_key, key_file

STORE = "sqlite:////srv/shop.db"
OTHER_USER = 54321


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's state, which is not there yet."""
    folder = tmp_path / "some" / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_it_is_made_once_and_only_its_user_can_read_it(state: Path, mask: int) -> None:
    """Whatever the mask of the process is. The next start has the same key, and ``cat`` shows it."""
    before = os.umask(mask)
    try:
        key = kept_key(STORE, 8420)
    finally:
        os.umask(before)
    path = key_file(STORE, 8420)
    assert path.parent == state / "holdfast"
    assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)
    assert path.read_text() == f"{key}\n"
    assert len(key) == 43
    assert kept_key(STORE, 8420) == found_key(STORE, 8420) == key
    assert list(path.parent.iterdir()) == [path]


def test_each_store_and_port_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is the same from whatever folder it is named, and a password is not part of its name."""
    monkeypatch.chdir(tmp_path)
    stores = [STORE, "sqlite:////srv/other.db", "sqlite:///shop.db", "memory://", "postgresql://shop@db/shop"]
    assert len({kept_key(store, port) for store in stores for port in (8420, 8421)}) == 10
    assert kept_key(f"sqlite:///{tmp_path}/shop.db", 8420) == kept_key("sqlite:///shop.db", 8420)
    assert kept_key("postgresql://shop:secret@db/shop", 8420) == kept_key("postgresql://shop@db/shop", 8420)
    with pytest.raises(InvalidOperatorKey, match="give its --store and --port"):
        found_key(STORE, 8422)


@pytest.mark.long
def test_servers_that_start_at_once_have_the_same_key() -> None:
    """Threads and processes: a file is there under its name only when it is whole."""
    for port in range(8420, 8440):
        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(lambda _, port=port: kept_key(STORE, port), range(16)))) == 1
    script = f"from holdfast.server import kept_key; print(*(kept_key({STORE!r}, port) for port in range(9000, 9100)))"
    started = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(3)]
    printed = {process.communicate(timeout=120)[0] for process in started}
    assert len(printed) == 1
    assert len(set(printed.pop().split())) == 100


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o660, 0o604, 0o666, 0o601])
def test_a_file_that_others_can_use_is_refused(mode: int) -> None:
    """They may know the key, so it is not enough to narrow the mode: a new key is needed."""
    kept_key(STORE, 8420)
    path = key_file(STORE, 8420)
    path.chmod(mode)
    for way in (kept_key, found_key):
        with pytest.raises(InvalidOperatorKey, match=rf"{path.name} is open to others \(mode {mode:o}\).*delete it"):
            way(STORE, 8420)
    path.unlink()
    assert kept_key(STORE, 8420)


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o777, 0o1777, 0o710])
def test_a_folder_that_others_can_use_is_refused(state: Path, mode: int) -> None:
    key = kept_key(STORE, 8420)
    folder = state / "holdfast"
    folder.chmod(mode)
    for way in (kept_key, found_key):
        with pytest.raises(InvalidOperatorKey, match=f"chmod 700 {folder}"):
            way(STORE, 8420)
    folder.chmod(0o700)
    assert kept_key(STORE, 8420) == key


def test_a_symbolic_link_is_refused(state: Path, tmp_path: Path) -> None:
    """In place of the file and of the folder, also one that leads nowhere: nothing is written through it."""
    kept_key(STORE, 8420)
    path, target = key_file(STORE, 8420), tmp_path / "target"
    for leads_somewhere in (True, False):
        path.rename(target) if leads_somewhere else target.unlink()
        if leads_somewhere:
            path.symlink_to(target)
        for way in (kept_key, found_key):
            with pytest.raises(InvalidOperatorKey, match=f"{path.name} is a symbolic link"):
                way(STORE, 8420)
    assert not target.exists()
    path.unlink()
    (state / "holdfast").rename(tmp_path / "elsewhere")
    (state / "holdfast").symlink_to(tmp_path / "elsewhere")
    for way in (kept_key, found_key):
        with pytest.raises(InvalidOperatorKey, match="holdfast is a symbolic link"):
            way(STORE, 8420)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_what_belongs_to_another_user_is_refused(state: Path) -> None:
    kept_key(STORE, 8420)
    for path in (key_file(STORE, 8420), state / "holdfast"):
        os.chown(path, OTHER_USER, OTHER_USER)
        for way in (kept_key, found_key):
            with pytest.raises(InvalidOperatorKey, match=f"{path.name} belongs to another user"):
                way(STORE, 8420)
        os.chown(path, 0, 0)


@pytest.mark.parametrize("text", ["", "short", "x" * 44, "x" * 43 + "\nmore", "ö" * 43, "x" * 5000])
def test_a_file_without_a_key_is_refused(text: str) -> None:
    """One that was cut off or edited: no shorter secret is taken."""
    kept_key(STORE, 8420)
    key_file(STORE, 8420).write_text(text, encoding="utf-8")
    for way in (kept_key, found_key):
        with pytest.raises(InvalidOperatorKey, match="does not hold an operator's key: delete it"):
            way(STORE, 8420)


def test_a_pipe_or_a_folder_in_its_place_is_refused_at_once(state: Path) -> None:
    kept_key(STORE, 8420)
    path = key_file(STORE, 8420)
    for make in (os.mkfifo, os.mkdir):
        path.unlink()
        make(path, 0o600)
        for way in (kept_key, found_key):
            with pytest.raises(InvalidOperatorKey, match=f"{path.name} is not a file"):
                way(STORE, 8420)
        if path.is_dir():
            path.rmdir()
    (state / "holdfast").rmdir()
    (state / "holdfast").write_text("")
    for way in (kept_key, found_key):
        with pytest.raises(InvalidOperatorKey, match="holdfast is not a folder"):
            way(STORE, 8420)


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write anywhere, except below a file and in the system's own folders."""
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", Path("/proc")):
        monkeypatch.setenv("XDG_STATE_HOME", str(place))
        with pytest.raises(InvalidOperatorKey, match=f"kept in {place}/holdfast/.*Set XDG_STATE_HOME to a folder"):
            kept_key(STORE, 8420)


@pytest.mark.parametrize("state_home", [None, "", "relative"])
def test_without_a_folder_of_state_it_is_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_home: str | None
) -> None:
    """The specification of XDG has a relative path ignored. Without a home there is no folder, and a message."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_STATE_HOME") if state_home is None else monkeypatch.setenv("XDG_STATE_HOME", state_home)
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    kept_key(STORE, 8420)
    assert key_file(STORE, 8420).parent == tmp_path / "ann" / ".local" / "state" / "holdfast"
    assert key_file(STORE, 8420).exists()
    for home in (None, "", "relative"):
        monkeypatch.delenv("HOME", raising=False) if home is None else monkeypatch.setenv("HOME", home)
        for way in (kept_key, found_key):
            with pytest.raises(InvalidOperatorKey, match="set HOME, or XDG_STATE_HOME"):
                way(STORE, 8420)
    assert [each.name for each in tmp_path.iterdir()] == ["ann"]
