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

from holdfast.testing.postgres import PostgresServer
from tests.acceptance.commands import SECONDS, SHOP, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A new folder, without a database."""
    return Folder(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """A folder with a worker, shared by the tests, which use different ids."""
    folder = Folder(tmp_path_factory.mktemp("served"))
    with folder.worker():
        yield folder


def test_a_run_from_its_start_to_its_end(served: Folder) -> None:
    """Start, show, explain, signal, follow, list, verify and replay one run, with a worker in another process."""
    assert served.call("start", "order", "12", "--id", "o-1", "--attribute", "customer=7", "--app", "shop") == (
        "run o-1 started\n"
    )
    served.until_status("o-1", "waiting")
    output = served.call("show", "o-1")
    for text in ("✓  charge", "✓  ship (workflow)", "o-1~1  ship  completed", "attributes  customer=7"):
        assert text in output
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
    """``start --wait`` prints only the result, and exits 1 if the run fails."""
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


def test_a_paused_run_waits_until_it_is_resumed_and_a_cancelled_one_ends(served: Folder) -> None:
    """Pause, resume and cancel work on a run that another process executes."""
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


def test_a_fork_continues_independently_from_where_it_was_cut(served: Folder) -> None:
    """The new run does the rest again; the old one does not change."""
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
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0
    (folder.path / "shop.py").write_text(
        SHOP.replace("ship(amount)\n    ok", "ship(2 * amount)\n    ok"), encoding="utf-8"
    )
    before = folder.call("journal", "live")
    output = folder.call("replay", "--all", "--workflow", "order", "--app", "shop", code=1)
    assert "run live of workflow order does not replay" in output
    assert "- recorded: workflow ship(1)" in output
    assert "+ issued:   workflow ship(2)" in output
    record = folder.read("replay", "live", "--app", "shop", code=1)[0]
    assert (record["clean"], record["code_changed"], record["recorded"][:16]) == (False, False, "workflow ship(1)")
    assert folder.call("journal", "live") == before


def test_a_worker_lets_its_steps_finish_before_it_stops(folder: Folder) -> None:
    """The first SIGTERM: steps under way end, their results are kept, and the exit code is 0."""
    with folder.worker("--grace-seconds", "15") as worker:
        folder.call("start", "long", "one", "--id", "l-1")
        folder.until_file("one-began")
        worker.send(signal.SIGTERM)
        assert "finishing 1 steps, press Ctrl-C again to stop at once" in worker.read_until("finishing")
        (folder.path / "one-end").touch()
        worker.read_until("stopped")
        assert worker.ended() == 0
    assert folder.read("list")[0]["worker"] is None
    assert any(event["event"] == "InvokeCompleted" for event in folder.read("journal", "l-1"))


def test_a_second_interrupt_stops_a_worker_at_once_and_another_takes_over(folder: Folder) -> None:
    """Nothing is lost: the next worker repeats the interrupted step, without waiting for the lease to expire."""
    with folder.worker("--grace-seconds", "600", "--lease-seconds", "600") as worker:
        folder.call("start", "long", "two", "--id", "l-2")
        folder.until_file("two-began")
        worker.send(signal.SIGINT)
        worker.read_until("press Ctrl-C again")
        worker.send(signal.SIGINT)
        worker.read_until("stopped at once")
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
    """Migrate, doctor and prune on a new store."""
    folder.call("migrate", "--check", code=1)
    assert folder.call("migrate").startswith("schema 0 → ")
    folder.call("migrate", "--check")
    assert folder.call("doctor").endswith("all is well\n")
    assert folder.call("prune", "--older-than", "30d", "--dry-run") == "0 runs would be deleted\n"


@pytest.mark.long
def test_the_same_commands_work_on_postgresql(folder: Folder, postgres: PostgresServer) -> None:
    """Only the store's URL differs."""
    folder.environment["HOLDFAST_STORE"] = postgres.schema_url()
    assert "holds no Holdfast tables" in folder.call("list", code=5)
    assert folder.call("migrate").startswith("schema 0 → ")
    folder.call("start", "pay", "3", "--id", "p-1")
    assert "1 of pay" in folder.call("doctor", code=1)
    assert folder.read("show", "p-1")[0]["status"] == "queued"
    assert folder.read("verify", "--all")[0]["good"] is True


def test_traces_of_the_model_are_checked_against_the_laws(folder: Folder) -> None:
    """``journal check`` exits 0 if all is accepted, 1 if a law is broken; each execution and state has a line."""
    model = Path(__file__).parents[1] / "journals" / "model"
    good = folder.read("journal", "check", str(model / "lawful-cancelled.itf.json"))
    assert good
    assert all(verdict["accepted"] and verdict["law"] is None for verdict in good)
    bad = folder.read("journal", "check", str(model / "lawless-0.itf.json"), code=1)
    assert any(not verdict["accepted"] and verdict["law"] for verdict in bad)
    assert "refused" in folder.call("journal", "check", str(model / "lawless-0.itf.json"), code=1)
    folder.call("journal", "check", "shop.py", code=2)


def test_lint_checks_the_workflows_of_a_file(folder: Folder) -> None:
    """It exits 0 for clean code, and 1 for a clock in a workflow's body, with its place."""
    folder.call("lint", "shop.py")
    (folder.path / "bad.py").write_text(
        "import time\nfrom holdfast import workflow\n\n\n@workflow\nasync def w():\n    return time.time()\n",
        encoding="utf-8",
    )
    assert folder.call("lint", ".", code=1).startswith("bad.py:7:")


@pytest.mark.parametrize(
    ("args", "code", "expected"),
    [
        (["list"], 5, "there is no database at shop.db"),
        (["show", "x", "--store", "sqlite:///shop.py"], 5, "is not a Holdfast database"),
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
def test_mistakes_are_reported_in_one_line(folder: Folder, args: list[str], code: int, expected: str) -> None:
    """The line says what is wrong and what to do; there is no traceback; the exit code is the documented one."""
    message = folder.call(*args, code=code)
    assert message.startswith("error: ")
    assert expected in message
    assert "tried again" not in message.replace("It is not tried again", "")


@pytest.fixture(params=["foreground", "background"])
def session(request: pytest.FixtureRequest) -> Iterator[None]:
    """As if the tests were started in a terminal, or in the background of a script, where SIGINT is ignored."""
    if request.param == "foreground":
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("session")
def test_an_interrupt_ends_a_command_quietly(served: Folder) -> None:
    """Ctrl-C while following a run: exit code 130, and no output on stderr."""
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
def test_arguments_that_are_not_utf_8_are_refused(served: Folder, arguments: list[bytes], as_json: bool) -> None:
    """Such bytes can neither be stored nor found."""
    command = [sys.executable.encode(), b"-m", b"holdfast", *arguments, *([b"--json"] if as_json else [])]
    done = subprocess.run(command, cwd=served.path, env=served.environment, capture_output=True, timeout=SECONDS)
    message = (done.stdout if as_json else done.stderr).decode()
    assert (done.returncode, "Traceback" in done.stderr.decode()) == (2, False)
    assert "is not UTF-8" in message
    assert "\\xff" in message


def test_a_setting_that_is_not_utf_8_is_named_but_its_value_is_not_shown(served: Folder) -> None:
    """A store's URL may contain a password."""
    url = b"postgresql://me:secret\xff@db/shop"
    for extra, setting, name in (
        ([b"--store", url], {}, "the store's URL"),
        ([], {"HOLDFAST_STORE": url}, "HOLDFAST_STORE"),
    ):
        command = [sys.executable.encode(), b"-m", b"holdfast", b"list", *extra]
        environment = {os.fsencode(key): os.fsencode(text) for key, text in served.environment.items()}
        environment |= {os.fsencode(key): text for key, text in setting.items()}
        done = subprocess.run(command, cwd=served.path, env=environment, capture_output=True, timeout=SECONDS)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.decode() == f"error: {name} is not UTF-8: nothing can be stored or found by it\n"


def test_arguments_that_only_the_worker_can_check_fail_the_run(served: Folder) -> None:
    """Without --app, ``start`` accepts any arguments; the worker reports what it expected, to those who wait, too."""
    message = "argument 'amount' of order is 'ten', which does not fit int: Expected `int`, got `str`"
    assert message in served.call("start", "order", "ten", "--id", "ten", "--wait", code=1)
    assert message in served.call("explain", "ten")
    assert "missing 1 required positional argument" in served.call("start", "order", "--id", "none", "--wait", code=1)


def test_a_worker_in_the_background_of_a_script_stops_on_an_interrupt(folder: Folder) -> None:
    """The shell makes it ignore SIGINT; it handles it nevertheless, so that `kill -INT` and Ctrl-C stop it."""
    log = folder.path / "worker.txt"
    log.touch()
    script = f"{shlex.quote(sys.executable)} -m holdfast worker shop:app 2>{shlex.quote(str(log))} & echo $!; wait"
    command = ["/bin/sh", "-c", script]
    with subprocess.Popen(command, cwd=folder.path, env=folder.environment, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        worker = int(shell.stdout.readline())
        try:
            folder.until(lambda: "is ready" in log.read_text(), "the worker to be ready")
            os.kill(worker, signal.SIGINT)
            shell.wait(SECONDS)
        except BaseException:
            os.kill(worker, signal.SIGKILL)
            raise
    assert "stopped" in log.read_text()
    assert " is ready, serving long, order, pay, ship from sqlite:///shop.db\n" in log.read_text()


def test_a_reader_that_closes_the_pipe_is_no_error(served: Folder) -> None:
    """``holdfast journal RUN | head -1`` prints nothing on stderr."""
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
    command = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli.main", "show", "p-7"], cwd=served.path, env=environment, stdout=theirs
    )
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 4096):
            output += chunk
    except OSError:  # Linux raises it when the other side of a terminal is closed
        pass
    finally:
        os.close(ours)
    assert command.wait(SECONDS) == 0
    assert b"\x1b[32m" in output
    assert "✓".encode() in output
