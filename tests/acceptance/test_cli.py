"""The command line in real processes, as a person or a script uses it."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.postgres import server
from tests.acceptance.commands import SECONDS, SHOP, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder of its own, without a database yet."""
    return Folder(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """A folder whose runs a worker serves; tests use different ids."""
    folder = Folder(tmp_path_factory.mktemp("served"))
    with folder.worker():
        yield folder


def test_a_run_from_its_start_to_its_end(served: Folder) -> None:
    """Start, look, explain, signal, follow, list, verify and replay one run, with a worker in another process."""
    assert served.call("start", "order", "12", "--id", "o-1", "--attribute", "customer=7", "--app", "shop") == (
        "run o-1 started\n"
    )
    served.until_status("o-1", "waiting")
    shown = served.call("show", "o-1")
    for words in ("✓  charge", "✓  ship (workflow)", "o-1~1  ship  completed", "attributes  customer=7"):
        assert words in shown
    assert "`holdfast signal o-1 ok VALUE` sends it" in served.call("explain", "o-1")
    tail = served.begin("tail", "o-1", "--json")
    served.call("signal", "o-1", "ok", "true", "--id", "mail-1")
    out, _ = tail.communicate(timeout=SECONDS)
    assert (tail.returncode, out.splitlines()) == (0, served.call("journal", "o-1", "--json").splitlines())
    assert served.read("show", "o-1")[0]["result"] == {"payment": "p-12", "parcel": 13, "ok": True, "gift": False}
    assert [run["id"] for run in served.read("list", "--attribute", "customer=7")] == ["o-1"]
    assert served.call("verify", "o-1").startswith("✓ run o-1 is good")
    assert "replays cleanly" in served.call("replay", "o-1", "--app", "shop")
    served.call("signal", "o-1", "ok", code=4)


def test_waiting_gives_the_result_or_the_failure(served: Folder) -> None:
    """``start --wait`` prints the result alone, and exits 1 where the run fails."""
    assert served.call("start", "pay", "3", "--wait", "--app", "shop.py:app") == "p-3\n"
    (served.path / "broke").touch()
    try:
        failed = served.read("start", "pay", "4", "--id", "p-4", "--wait", code=1)[0]
        assert (failed["status"], failed["error"]) == ("failed", "ValueError: the card was refused")
        assert "doing again: charge" in served.call("retry", "p-4", "--dry-run")
    finally:
        (served.path / "broke").unlink()
    served.call("retry", "p-4")
    served.until_status("p-4", "completed")
    assert served.read("show", "p-4")[0]["result"] == "p-4"


def test_a_paused_run_rests_until_it_is_resumed_and_a_cancelled_one_ends(served: Folder) -> None:
    """Pause, resume and cancel reach a run that another process serves."""
    served.call("start", "order", "1", "--id", "o-2")
    served.until_status("o-2", "waiting")
    served.call("pause", "o-2", "--reason", "moving")
    assert "paused by request: moving" in served.call("explain", "o-2")
    served.call("signal", "o-2", "ok", "false")
    assert served.read("show", "o-2")[0]["status"] == "paused"
    served.call("resume", "o-2")
    served.until_status("o-2", "completed")
    served.call("start", "order", "1", "--id", "o-3")
    served.until_status("o-3", "waiting")
    assert served.call("cancel", "o-3", "--dry-run") == "run o-3 would be cancelled\n"
    served.call("cancel", "o-3", "--reason", "enough")
    served.until_status("o-3", "cancelled")
    assert "enough" in served.call("show", "o-3")


def test_a_fork_goes_on_by_itself_from_where_it_was_cut(served: Folder) -> None:
    """The new run does the rest again; the old one stays as it is."""
    served.call("start", "pay", "5", "--id", "p-5", "--wait")
    before = served.call("journal", "p-5")
    served.call("fork", "p-5", "--from", "3", "--id", "p-5b")
    served.until_status("p-5b", "completed")
    assert served.read("show", "p-5b")[0]["result"] == "p-5"
    assert served.call("journal", "p-5") == before
    assert served.call("verify", "--all").endswith("all good\n")


def test_changed_code_is_found_before_it_is_deployed(folder: Folder) -> None:
    """``replay --all`` shows the difference between the journal and the new code, and exits 1; nothing is written."""
    with folder.worker() as worker:
        folder.call("start", "order", "1", "--id", "live")
        folder.until_status("live", "waiting")
        worker.tell(signal.SIGTERM)
        assert worker.ended() == 0
    (folder.path / "shop.py").write_text(
        SHOP.replace("ship(amount)\n    ok", "ship(2 * amount)\n    ok"), encoding="utf-8"
    )
    before = folder.call("journal", "live")
    told = folder.call("replay", "--all", "--workflow", "order", "--app", "shop", code=1)
    assert "run live of workflow order does not replay" in told
    assert "- recorded: workflow ship(1)" in told
    assert "+ issued:   workflow ship(2)" in told
    record = folder.read("replay", "live", "--app", "shop", code=1)[0]
    assert (record["clean"], record["code_changed"], record["recorded"][:16]) == (False, False, "workflow ship(1)")
    assert folder.call("journal", "live") == before


def test_a_worker_lets_its_steps_finish_before_it_stops(folder: Folder) -> None:
    """The first SIGTERM: what is under way ends, its result is kept, and the exit code is 0."""
    with folder.worker("--grace-seconds", "15") as worker:
        folder.call("start", "long", "one", "--id", "l-1")
        folder.until_file("one-began")
        worker.tell(signal.SIGTERM)
        assert "finishing 1 steps, press Ctrl-C again to stop at once" in worker.heard("finishing")
        (folder.path / "one-end").touch()
        worker.heard("stopped")
        assert worker.ended() == 0
    assert folder.read("list")[0]["worker"] is None
    assert any(event["event"] == "InvokeCompleted" for event in folder.read("journal", "l-1"))


def test_a_second_interrupt_stops_a_worker_at_once_and_another_takes_over(folder: Folder) -> None:
    """Nothing is lost: the step that was cut off is run by the next worker, without waiting for the lease to expire."""
    with folder.worker("--grace-seconds", "600", "--lease-seconds", "600") as worker:
        folder.call("start", "long", "two", "--id", "l-2")
        folder.until_file("two-began")
        worker.tell(signal.SIGINT)
        worker.heard("press Ctrl-C again")
        worker.tell(signal.SIGINT)
        worker.heard("stopped at once")
        assert worker.ended() == 130
    assert "is dead; the next worker takes over its runs" in folder.call("doctor", code=1)
    (folder.path / "two-end").touch()
    with folder.worker("--lease-seconds", "1"):
        folder.until_status("l-2", "completed")


def test_a_workers_log_can_be_read_by_programs(folder: Folder) -> None:
    """With ``--json`` the milestones are objects on stdout."""
    worker = folder.begin("worker", "shop.py", "--json", "--queues", "mail=2", "--concurrency", "5")
    assert worker.stdout is not None
    assert '"event": "ready"' in worker.stdout.readline()
    worker.send_signal(signal.SIGTERM)
    out, _ = worker.communicate(timeout=SECONDS)
    assert (worker.returncode, '"event": "stopped"' in out.splitlines()[-1]) == (0, True)


def test_the_stores_upkeep(folder: Folder) -> None:
    """Migrate, doctor and prune on a fresh store."""
    folder.call("migrate", "--check", code=1)
    assert folder.call("migrate").startswith("schema 0 → ")
    folder.call("migrate", "--check")
    assert folder.call("doctor").endswith("all is well\n")
    assert folder.call("prune", "--older-than", "30d", "--dry-run") == "0 runs would be deleted\n"


def test_the_same_commands_work_on_postgresql(folder: Folder) -> None:
    """The store's URL is all that differs."""
    with server(fast=True) as postgres:
        folder.environment["HOLDFAST_STORE"] = postgres.schema_url()
        assert "holds no Holdfast tables" in folder.call("list", code=5)
        assert folder.call("migrate").startswith("schema 0 → ")
        folder.call("start", "pay", "3", "--id", "p-1")
        assert "1 of pay" in folder.call("doctor", code=1)
        assert folder.read("show", "p-1")[0]["status"] == "queued"
        assert folder.read("verify", "--all")[0]["good"] is True


def test_traces_of_the_model_are_checked_against_the_laws(folder: Folder) -> None:
    """``journal check``: 0 where all is accepted, 1 where a law is broken, with a line for each execution and state."""
    model = Path(__file__).parents[1] / "journals" / "model"
    good = folder.read("journal", "check", str(model / "lawful-cancelled.itf.json"))
    assert good
    assert all(verdict["accepted"] and verdict["law"] is None for verdict in good)
    bad = folder.read("journal", "check", str(model / "lawless-0.itf.json"), code=1)
    assert any(not verdict["accepted"] and verdict["law"] for verdict in bad)
    assert "refused" in folder.call("journal", "check", str(model / "lawless-0.itf.json"), code=1)
    folder.call("journal", "check", "shop.py", code=2)


def test_lint_judges_the_workflows_of_a_file(folder: Folder) -> None:
    """Clean code exits 0; a clock in a workflow's body exits 1, with its place."""
    folder.call("lint", "shop.py")
    (folder.path / "bad.py").write_text(
        "import time\nfrom holdfast import workflow\n\n\n@workflow\nasync def w():\n    return time.time()\n",
        encoding="utf-8",
    )
    assert folder.call("lint", ".", code=1).startswith("bad.py:7:")


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["list"], 5, "there is no database at shop.db"),
        (["show", "x", "--store", "sqlite:///shop.py"], 5, "no Holdfast database"),
        (["start", "order", "[1"], 2, "not valid JSON"),
        (["start", "order", "ten", "--app", "shop"], 2, "argument 'amount' of order is 'ten', which does not fit int"),
        (["start", "order", "--app", "shop"], 2, "order cannot be called like this: missing a required argument"),
        (["start", "nothing", "--app", "shop"], 3, "no workflow 'nothing'; it has: long, order, pay, ship"),
        (["worker", "nowhere:app"], 2, "there is no module 'nowhere'"),
        (["worker", "shop:charge"], 2, "something else than a Holdfast instance"),
        (["worker", "shop", "--store", "sqlite:////no/such/folder/x.db"], 5, "cannot be opened"),
        (
            ["list", "--store", "postgresql://me:word@127.0.0.1:1/none"],
            5,
            "postgresql://127.0.0.1:1/none does not answer",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(folder: Folder, args: list[str], code: int, told: str) -> None:
    """What is wrong and what to do, without a traceback, with the documented exit code."""
    message = folder.call(*args, code=code)
    assert message.startswith("error: ")
    assert told in message
    assert "tried again" not in message  # it is not: the command has ended


@pytest.fixture(params=["foreground", "background"])
def session(request: pytest.FixtureRequest) -> Iterator[None]:
    """The tests started in a terminal, or in the background of a script, where a shell makes SIGINT ignored."""
    if request.param == "foreground":
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("session")
def test_an_interrupt_ends_a_command_quietly(served: Folder) -> None:
    """Ctrl-C while following a run: exit 130 and not a word."""
    served.call("start", "order", "1", "--id", "o-9")
    served.until_status("o-9", "waiting")
    tail = served.begin("tail", "o-9", "--from", "1")
    assert tail.stdout is not None
    tail.stdout.readline()
    tail.send_signal(signal.SIGINT)
    _, err = tail.communicate(timeout=SECONDS)
    assert (tail.returncode, err.strip()) == (130, "")


@pytest.mark.parametrize(
    "arguments",
    [
        [b"show", b"\xff"],
        [b"start", b"order", b"\xff"],
        [b"start", b"order", b"1", b"--actor", b"a\xff"],
        [b"\xff"],
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_no_utf_8_is_refused(served: Folder, arguments: list[bytes], as_json: bool) -> None:
    """No text of such bytes can be stored, or looked for."""
    command = [sys.executable.encode(), b"-m", b"holdfast", *arguments, *([b"--json"] if as_json else [])]
    done = subprocess.run(command, cwd=served.path, env=served.environment, capture_output=True, timeout=SECONDS)
    told = (done.stdout if as_json else done.stderr).decode()
    assert (done.returncode, "Traceback" in done.stderr.decode()) == (2, False)
    assert "is not UTF-8" in told
    assert "\\xff" in told


def test_a_garbled_setting_is_named_and_not_shown(served: Folder) -> None:
    """A store's URL may have a password in it."""
    url = b"postgresql://me:secret\xff@db/shop"
    for extra, setting, told in (
        ([b"--store", url], {}, "the store's URL"),
        ([], {"HOLDFAST_STORE": url}, "HOLDFAST_STORE"),
    ):
        command = [sys.executable.encode(), b"-m", b"holdfast", b"list", *extra]
        environment = {os.fsencode(name): os.fsencode(text) for name, text in served.environment.items()}
        environment |= {os.fsencode(name): text for name, text in setting.items()}
        done = subprocess.run(command, cwd=served.path, env=environment, capture_output=True, timeout=SECONDS)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.decode() == f"error: {told} is not UTF-8: nothing can be stored or found by it\n"


def test_arguments_that_only_the_worker_can_check_fail_the_run(served: Folder) -> None:
    """Without --app, ``start`` takes any: the worker says what it expected, and whoever waits is told."""
    told = "argument 'amount' of order is 'ten', which does not fit int: Expected `int`, got `str`"
    assert told in served.call("start", "order", "ten", "--id", "ten", "--wait", code=1)
    assert told in served.call("explain", "ten")
    assert "missing 1 required positional argument" in served.call("start", "order", "--id", "none", "--wait", code=1)


def test_a_worker_in_the_background_of_a_script_stops_on_an_interrupt(folder: Folder) -> None:
    """The shell made it deaf to SIGINT; it listens all the same, so that `kill -INT` and Ctrl-C stop it in order."""
    words = folder.path / "worker.txt"
    words.touch()
    script = f"{shlex.quote(sys.executable)} -m holdfast worker shop:app 2>{shlex.quote(str(words))} & echo $!; wait"
    command = ["/bin/sh", "-c", script]
    with subprocess.Popen(command, cwd=folder.path, env=folder.environment, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        worker = int(shell.stdout.readline())
        try:
            folder.until(lambda: "is ready" in words.read_text(), "the worker to be ready")
            os.kill(worker, signal.SIGINT)
            shell.wait(SECONDS)
        except BaseException:
            os.kill(worker, signal.SIGKILL)
            raise
    assert "stopped" in words.read_text()
    assert " is ready, serving long, order, pay, ship from sqlite:///shop.db\n" in words.read_text()


def test_a_reader_that_has_seen_enough_is_no_error(served: Folder) -> None:
    """``holdfast journal RUN | head -1`` says nothing on stderr."""
    served.call("start", "pay", "6", "--id", "p-6", "--wait")
    journal = served.begin("journal", "p-6")
    assert journal.stdout is not None
    journal.stdout.close()
    assert journal.stderr is not None
    assert journal.stderr.read() == ""
    assert journal.wait(SECONDS) == 0
    journal.stderr.close()


def test_a_terminal_gets_colours_and_a_pipe_does_not(served: Folder) -> None:
    """Rich on a terminal, plain text elsewhere."""
    served.call("start", "pay", "7", "--id", "p-7", "--wait")
    assert "\x1b[" not in served.call("show", "p-7")
    ours, theirs = pty.openpty()
    environment = {**served.environment, "TERM": "xterm-256color", "COLUMNS": "120"}
    environment.pop("NO_COLOR", None)
    shown = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli.main", "show", "p-7"], cwd=served.path, env=environment, stdout=theirs
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:  # Linux says so when the other side of a terminal is closed
        pass
    finally:
        os.close(ours)
    assert shown.wait(SECONDS) == 0
    assert b"\x1b[32m" in seen
    assert "✓".encode() in seen
