"""Commands on a store with a completed, a failed and a waiting run."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast
from holdfast.cli.main import main
from holdfast.store.protocol import WorkerRow
from tests.unit.cli import cli_shop
from tests.unit.cli.conftest import Invoke, lines
from tests.unit.server.older_ids import older_run

SHOP = "tests.unit.cli.cli_shop"


def _ids(result: Result) -> list[str]:
    return [record["id"] for record in lines(result)]


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ([], ["waiting", "failed", "done"]),
        (["--status", "failed"], ["failed"]),
        (["--workflow", "cli_order"], ["waiting", "done"]),
        (["--attribute", "customer=7"], ["done"]),
        (["--attribute", "customer=8"], []),
        (["--tenant", "acme"], ["waiting"]),
        (["--since", "1h"], ["waiting", "failed", "done"]),
        (["--until", "1h"], []),
        (["--since", "2020-01-01", "--limit", "2"], ["waiting", "failed"]),
        (["--limit", "0"], ["waiting", "failed", "done"]),
    ],
)
def test_list_shows_the_runs_that_match_newest_first(holdfast: Invoke, filters: list[str], ids: list[str]) -> None:
    """All filters hold together; all tenants unless one is named."""
    result = holdfast("list", "--json", *filters)
    assert (_ids(result), result.exit_code) == (ids, 0)


def test_list_for_people_has_a_row_for_each_run(holdfast: Invoke) -> None:
    """The error stands in the note, harmless; the tenant is named where there is more than the default one."""
    rows = holdfast("list").stdout.splitlines()
    assert rows[0].split() == ["TENANT", "ID", "WORKFLOW", "STATUS", "CREATED", "DURATION", "NOTE"]
    assert "ValueError: no\\x1b[31m red" in rows[2]


def test_show_tells_what_a_run_did_and_why_it_rests(holdfast: Invoke) -> None:
    """Header, reason, and one line per step."""
    text = holdfast("show", "waiting", "--tenant", "acme").stdout
    assert "waiting for signal 'ok' (`holdfast signal waiting ok VALUE --tenant acme` sends it)" in text
    assert "✓  cli_charge" in text
    record = lines(holdfast("show", "done", "--json"))[0]
    assert record["result"] == {"ok": True, "gift": False, "paid": 5, "raw": {"$base64": "AP8="}}
    assert [item["kind"] for item in record["timeline"]] == ["started", "step", "delivery", "ended"]


def test_a_journal_is_printed_event_by_event(holdfast: Invoke) -> None:
    """As lines for people, as objects for programs, from any sequence on."""
    text = holdfast("journal", "done").stdout
    assert "step cli_charge(5) scheduled at #0" in text
    records = lines(holdfast("journal", "done", "--json", "--from", "2"))
    assert [record["sequence"] for record in records] == list(range(2, len(text.splitlines())))
    assert records[-1]["event"] == "ExecutionCompleted"
    assert holdfast("journal", "--json", "show", "done").exit_code == 2
    assert holdfast("journal", "show", "done").stdout == text
    assert holdfast("tail", "done").stdout == text


def test_explain_is_one_sentence(holdfast: Invoke) -> None:
    """What it waits for, and what would move it."""
    assert holdfast("explain", "failed").stdout.count("\n") == 1
    record = lines(holdfast("explain", "waiting", "--tenant", "acme", "--json"))[0]
    assert record["status"] == "waiting"
    assert "signal 'ok'" in record["explanation"]
    (advice,) = record["advice"]
    assert (advice["code"], advice["thing"], advice["more"]) == ("send_signal", "waiting", "ok")
    assert advice["command"] == "holdfast signal waiting ok VALUE --tenant acme"
    assert lines(holdfast("show", "waiting", "--tenant", "acme", "--json"))[0]["advice"][0]["code"] == "send_signal"


def test_a_run_is_started_once_for_one_id(holdfast: Invoke) -> None:
    """The id is the idempotency key, and other arguments are a conflict."""
    first = lines(holdfast("start", "cli_order", "9", "--kwargs", '{"gift": true}', "--id", "new", "--json"))[0]
    again = lines(holdfast("start", "cli_order", "9", "--kwargs", '{"gift": true}', "--id", "new", "--json"))[0]
    assert (first["new"], again["new"], again["status"]) == (True, False, "queued")
    conflict = holdfast("start", "cli_order", "10", "--id", "new")
    assert conflict.exit_code == 4
    assert "no worker is running" in holdfast("start", "cli_order", "9").stderr


def test_start_with_an_app_checks_name_and_arguments_first(holdfast: Invoke, database: str) -> None:
    """Nothing is written that could never run."""
    for args, code, message in (
        (["cli_nothing"], 3, "no workflow 'cli_nothing'; it has: "),
        (["cli_order"], 2, "missing a required argument: 'amount'"),
        (["cli_order", "many"], 2, "'amount'"),
        (["cli_failing", "3"], 2, """Arguments are JSON where they can be: '"3"' is the text 3."""),
        (["cli_order", "1", "--kwargs", '{"id": 3}'], 2, "give that argument by position"),
        (["cli_order", '{"a":'], 2, "not valid JSON"),
    ):
        result = holdfast("start", *args, "--app", SHOP, "--store", database)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        assert message in result.stderr
    assert len(lines(holdfast("list", "--json"))) == 3


def test_waiting_for_a_result_can_be_given_up(holdfast: Invoke) -> None:
    """Without a worker nothing moves: the wait ends, the run stays, and the reason is shown."""
    result = holdfast("start", "cli_order", "9", "--id", "new", "--wait", "--timeout", "0.05s")
    assert result.exit_code == 1
    assert "has not ended yet: It has been ready" in result.stderr
    assert _ids(holdfast("list", "--status", "queued", "--json")) == ["new"]


def test_waiting_for_a_parked_run_ends_with_the_reason(holdfast: Invoke, database: str) -> None:
    """Without a time-out nothing else would end it. With one it may be mended in time."""

    async def park() -> None:
        async with Holdfast(database, worker=False) as app:
            run = await app.start("cli_order", 9, id="parked")
            await app.store.pause(run.key, "nondeterminism: it differs", app.clock.now())

    asyncio.run(park())
    result = holdfast("start", "cli_order", "9", "--id", "parked", "--wait")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: run parked is parked: nondeterminism: it differs. Mend that, then `holdfast resume" in result.stderr
    timed = holdfast("start", "cli_order", "9", "--id", "parked", "--wait", "--timeout", "0.05s")
    assert "has not ended yet: It has been paused for" in timed.stderr


def test_steering_answers_with_the_run(holdfast: Invoke) -> None:
    """Pause, resume, signal and cancel say what they did, and show it."""
    acme = ("waiting", "--tenant", "acme", "--json")
    assert lines(holdfast("pause", *acme, "--reason", "moving"))[0]["pause_reason"] == "paused by request: moving"
    assert lines(holdfast("resume", *acme))[0]["pause_reason"] is None
    assert lines(holdfast("signal", "waiting", "ok", "true", "--tenant", "acme", "--json"))[0]["action"] == "signal"
    dry = lines(holdfast("cancel", *acme, "--dry-run"))[0]
    assert (dry["dry_run"], dry["action"]) == (True, "cancel")
    assert holdfast("cancel", *acme).exit_code == 0


@pytest.mark.parametrize(("key", "name"), [("1e3", "paid#1e3"), ('{"b":1,"a":2}', 'paid#{"a": 2, "b": 1}')])
def test_a_signal_is_sent_with_a_key(holdfast: Invoke, key: str, name: str) -> None:
    """A text is the key as it is written; an object is the same key in any spelling."""
    sent = holdfast("signal", "waiting", "paid", "12.5", "--key", key, "--tenant", "acme")
    assert sent.stdout == f"signal {name!r} sent to run waiting\n"
    (kept,) = lines(holdfast("show", "waiting", "--tenant", "acme", "--json"))[0]["signals"]
    assert (kept["name"], kept["value"]) == (name, 12.5)


def _operators(holdfast: Invoke, tenant: str) -> list[tuple[str, str]]:
    records = [
        entry["record"] for entry in lines(holdfast("audit", "--kind", "operator", "--tenant", tenant, "--json"))
    ]
    return [(record["act"], record["who"]) for record in records]


def test_the_audit_says_who_steered(holdfast: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--as` names them; without it, it is the user of the operating system."""
    monkeypatch.setenv("LOGNAME", "eve")
    for command in ("pause", "resume", "cancel"):
        assert holdfast(command, "waiting", "--tenant", "acme", "--as", "ann").exit_code == 0
    assert _operators(holdfast, "acme") == [("pause", "ann"), ("resume", "ann"), ("cancel", "ann")]
    assert holdfast("retry", "failed").exit_code == 0
    assert holdfast("fork", "done", "--from", "5").exit_code == 0
    assert _operators(holdfast, "default") == [("retry", "eve"), ("fork", "eve")]


def test_a_dry_run_leaves_nothing_in_the_audit(holdfast: Invoke) -> None:
    """An act that was refused is not in the audit."""
    holdfast("cancel", "waiting", "--tenant", "acme", "--dry-run", "--as", "ann")
    holdfast("retry", "failed", "--dry-run", "--as", "ann")
    assert _operators(holdfast, "acme") + _operators(holdfast, "default") == []


def test_a_run_knows_who_started_it_where_and_why(holdfast: Invoke) -> None:
    """Actor, workspace and trigger are kept, and the trigger is a key."""
    origin = ("--actor", "ann", "--workspace", "ops", "--trigger", "webhook:INC:42")
    first = lines(holdfast("start", "cli_order", "9", *origin, "--json"))[0]
    assert (first["actor"], first["workspace"], first["new"]) == ("ann", "ops", True)
    assert first["trigger"] == {"type": "webhook", "ref": "INC:42"}
    for ids in ((), ("--id", "another")):
        again = lines(holdfast("start", "cli_order", "9", *origin, *ids, "--json"))[0]
        assert (again["id"], again["new"]) == (first["id"], False)
    assert "choose another trigger" in holdfast("start", "cli_order", "10", *origin).stderr
    shown = [line.split() for line in holdfast("show", first["id"]).stdout.splitlines()]
    for row in (["workspace", "ops"], ["actor", "ann"], ["trigger", "webhook:INC:42"]):
        assert row in shown
    assert holdfast("start", "cli_order", "9", "--trigger", "webhook").exit_code == 2
    assert holdfast("start", "cli_order", "--kwargs", '{"actor": "ann"}').exit_code == 2


@pytest.mark.parametrize(
    "args",
    [
        ["signal", "done", "ok"],
        ["cancel", "done"],
        ["cancel", "done", "--dry-run"],
        ["pause", "done"],
        ["resume", "done"],
    ],
)
def test_an_ended_run_is_a_conflict(holdfast: Invoke, args: list[str]) -> None:
    """Exit 4: nothing can reach it any more."""
    result = holdfast(*args)
    assert result.exit_code == 4
    assert result.stderr.startswith("error: run done has ended")


def test_retry_says_what_is_done_again(holdfast: Invoke) -> None:
    """A dry run changes nothing; the real one begins a new generation, and the old journal stays."""
    before = holdfast("journal", "failed").stdout
    assert "would go on" in holdfast("retry", "failed", "--dry-run").stdout
    assert lines(holdfast("show", "failed", "--json"))[0]["generation"] == 0
    assert lines(holdfast("retry", "failed", "--json"))[0]["generation"] == 1
    assert lines(holdfast("show", "failed", "--json"))[0]["status"] == "queued"
    assert holdfast("journal", "failed", "--generation", "0").stdout == before
    assert holdfast("journal", "failed", "--generation", "7").exit_code == 2
    assert holdfast("retry", "done").exit_code == 2


def test_fork_makes_a_new_run_from_a_prefix(holdfast: Invoke) -> None:
    """The old run is untouched; a dry run shows where the cut would be."""
    dry = holdfast("fork", "done", "--from", "5", "--dry-run").stdout
    assert "kept       4  " in dry
    assert "again      5  " in dry
    record = lines(holdfast("fork", "done", "--from", "5", "--id", "twin", "--json"))[0]
    assert (record["id"], record["events"], record["attributes"]["forked_from"]) == ("twin", 5, "done")
    assert holdfast("fork", "done", "--from", "5", "--id", "twin").exit_code == 4
    assert holdfast("fork", "done", "--from", "99").exit_code == 2


def test_runs_replay_cleanly_against_the_code_that_made_them(holdfast: Invoke, database: str) -> None:
    """One run, or all live ones, without writing."""
    one = holdfast("replay", "done", "--app", SHOP, "--store", database)
    assert (one.exit_code, "run done replays cleanly, " in one.stdout) == (0, True)
    everything = holdfast("replay", "--all", "--ended", "--app", SHOP, "--store", database, "--json")
    assert [record["clean"] for record in lines(everything)] == [True, True, True]
    live = holdfast("replay", "--all", "--workflow", "cli_order", "--app", SHOP, "--store", database)
    assert live.stdout == "1 runs replay cleanly\n"
    assert holdfast("replay", "--app", SHOP).exit_code == 2


def test_verify_finds_a_journal_that_was_altered(holdfast: Invoke, database: str) -> None:
    """Good runs verify; one changed byte does not."""
    assert holdfast("verify", "done").stdout.startswith("✓ run done is good: ")
    assert holdfast("verify", "--all").stdout == "3 runs verified, all good\n"
    with sqlite3.connect(database.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE segments SET events = replace(events, X'01', X'02') WHERE run = 'done'")
        connection.execute("UPDATE segments SET events = events || X'00' WHERE run = 'done' AND first = 0")
    connection.close()
    result = holdfast("verify", "--all", "--json")
    assert result.exit_code == 1
    assert {record["id"]: record["good"] for record in lines(result)} == {
        "waiting": True,
        "failed": True,
        "done": False,
    }


def test_prune_deletes_what_ended_long_ago_and_a_dry_run_counts_it(holdfast: Invoke) -> None:
    """Live runs stay, whatever their age."""
    assert holdfast("prune", "--older-than", "30d").stdout == "0 runs were deleted\n"
    assert holdfast("prune", "--older-than", "0s", "--dry-run").stdout == "2 runs would be deleted\n"
    assert lines(holdfast("prune", "--older-than", "0s", "--json"))[0]["runs"] == 2
    assert _ids(holdfast("list", "--json")) == ["waiting"]


def test_migrate_creates_and_says_from_which_schema_to_which(tmp_path: Path) -> None:
    """``--check`` changes nothing and exits 1 until it is done."""
    url = f"sqlite:///{tmp_path / 'fresh.db'}"

    def migrate(*args: str) -> Result:
        return CliRunner().invoke(main, ["migrate", "--store", url, "--json", *args])

    assert (lines(migrate("--check"))[0]["from"], migrate("--check").exit_code) == (0, 1)
    assert not (tmp_path / "fresh.db").exists()
    assert lines(migrate())[0]["current"] is True
    assert (migrate("--check").exit_code, lines(migrate())[0]["from"] > 0) == (0, True)


def test_doctor_is_content_with_a_sound_store(holdfast: Invoke, database: str) -> None:
    """Every check is listed; parked runs and runs that no worker serves are problems."""
    sound = lines(holdfast("doctor", "--json"))[0]
    assert sound["good"] is True, sound
    with sqlite3.connect(database.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE runs SET pause = 'poison: it kills its worker' WHERE id = 'waiting'")
    connection.close()
    holdfast("start", "cli_unserved", "--id", "stranded")
    result = holdfast("doctor")
    assert result.exit_code == 1
    assert "waiting (cli_order): poison: it kills its worker" in result.stdout
    assert "no running worker knows the workflow: 1 of cli_unserved" in result.stdout


def test_doctor_does_not_mind_a_run_that_a_person_paused(holdfast: Invoke) -> None:
    """A pause by request is no problem."""
    holdfast("pause", "waiting", "--tenant", "acme", "--reason", "moving")
    assert holdfast("doctor").exit_code == 0


def test_doctor_names_a_worker_whose_clock_is_off(holdfast: Invoke, database: str) -> None:
    """It starts nothing by a schedule until it is right."""

    async def register() -> None:
        async with Holdfast(database, worker=False) as app:
            await app.store.register(WorkerRow("slow-1", "attic", 1, (), (), 0, 0), 3_600)
            await app.store.report_clock("slow-1", -7_200_000_000)

    asyncio.run(register())
    result = holdfast("doctor")
    assert result.exit_code == 1
    assert "slow-1 on attic starts nothing by a schedule: its clock is 7200.0 s behind the store's" in result.stdout


def test_doctor_reads_the_policy_that_it_is_given(holdfast: Invoke, tmp_path: Path) -> None:
    """A broken file is shown with the place of the error; a good one with its hash."""
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\nrules: []\n", encoding="utf-8")
    checks = lines(holdfast("doctor", "--policy", str(file), "--json"))[0]["checks"]
    assert (checks[-1]["name"], checks[-1]["good"], "sha256:" in checks[-1]["detail"]) == ("policy", True, True)
    file.write_text("version: 1\nrules: [{name: x}]\n", encoding="utf-8")
    result = holdfast("doctor", "--policy", str(file))
    assert result.exit_code == 1
    assert f"✗ policy     {file}:2:" in result.stdout


@pytest.mark.parametrize(
    "args",
    [
        ["show", "nope"],
        ["journal", "nope"],
        ["tail", "nope"],
        ["explain", "nope"],
        ["signal", "nope", "x"],
        ["cancel", "nope"],
        ["cancel", "nope", "--dry-run"],
        ["pause", "nope"],
        ["resume", "nope"],
        ["retry", "nope"],
        ["fork", "nope", "--from", "1"],
        ["verify", "nope"],
        ["replay", "nope", "--app", SHOP],
    ],
)
def test_an_unknown_run_is_not_found(holdfast: Invoke, database: str, args: list[str]) -> None:
    """Exit 3, one line, or one object with the error's code."""
    result = holdfast(*args, "--store", database)
    assert (result.exit_code, result.stderr.count("\n"), result.stdout) == (3, 1, "")
    assert result.stderr.startswith("error: there is no run 'nope'")
    records = lines(holdfast(*args, "--json", "--store", database))
    assert [record["error"]["code"] for record in records] == ["run_not_found"]


def test_a_missing_database_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    """A mistyped path stays a mistake."""
    path = tmp_path / "no" / "such.db"
    for command in (["list"], ["show", "x"], ["verify", "--all"], ["prune", "--older-than", "1d"]):
        result = CliRunner().invoke(main, [*command, "--store", f"sqlite:///{path}"])
        assert (result.exit_code, "there is no database at" in result.stderr) == (5, True)
    assert not path.parent.exists()
    assert CliRunner().invoke(main, ["doctor", "--store", f"sqlite:///{path}"]).exit_code == 1


@pytest.mark.parametrize("content", [b"", b"this is not a database, it is a text that is long enough to tell"])
def test_a_file_that_is_no_database_of_ours_is_an_error(tmp_path: Path, content: bytes) -> None:
    """Neither a traceback nor a guess: exit 5 and what to do."""
    path = tmp_path / "strange.db"
    path.write_bytes(content)
    for command in (["list"], ["show", "x"], ["cancel", "x"]):
        result = CliRunner().invoke(main, [*command, "--store", f"sqlite:///{path}"])
        assert (result.exit_code, result.stderr.startswith("error: ")) == (5, True), result.output
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([], 2),
        (["nothing"], 2),
        (["show"], 2),
        (["journal"], 2),
        (["list", "--status", "odd"], 2),
        (["list", "--since", "yesterday"], 2),
        (["start", "x", "--attribute", "novalue"], 2),
        (["list", "--store", "mysql://x"], 5),
        (["list", "--store", "memory://"], 5),
        (["worker", "no_such_module_here"], 2),
        (["replay", "x", "--app", "no_such_file.py"], 2),
    ],
)
def test_wrong_usage_is_an_error_with_a_code_and_no_traceback(args: list[str], code: int) -> None:
    """Exit 2 for the caller's mistakes, 5 for a store that cannot be used."""
    result = CliRunner().invoke(main, args)
    assert result.exit_code == code
    assert isinstance(result.exception, SystemExit)
    if args:
        assert result.stderr.startswith("error: ")
        record = json.loads(CliRunner().invoke(main, [*args, "--json"]).stdout)
        assert set(record["error"]) == {"code", "message"}


def test_bad_traces_are_refused_without_a_traceback(tmp_path: Path) -> None:
    """Exit 2 for what is no trace at all."""
    for name, content in (("text", b"hello"), ("list", b"[]"), ("deep", b"[" * 100_000), ("bytes", b"\xff\xfe\x00")):
        path = tmp_path / name
        path.write_bytes(content)
        result = CliRunner().invoke(main, ["journal", "check", str(path)])
        assert (result.exit_code, result.stderr.startswith("error: ")) == (2, True), result.output
    assert CliRunner().invoke(main, ["journal", "check", str(tmp_path / "none")]).exit_code == 2
    assert CliRunner().invoke(main, ["journal", "check", str(tmp_path)]).exit_code == 2
    assert CliRunner().invoke(main, ["journal", "check", "-"], input="{}").exit_code == 2


def test_lint_names_what_would_not_replay(tmp_path: Path) -> None:
    """Exit 1 with the place, the rule and the remedy; 0 for clean code; 2 for what is no Python."""
    clean = "from holdfast import workflow\n@workflow\nasync def w() -> None: ...\n"
    assert "no workflow or machine was found" in CliRunner().invoke(main, ["lint", str(tmp_path)]).stderr
    (tmp_path / "clean.py").write_text(clean, encoding="utf-8")
    result = CliRunner().invoke(main, ["lint", str(tmp_path)])
    assert (result.exit_code, result.stderr) == (0, "1 workflow: nothing found that would not replay\n")
    dirty = clean.replace("...", "time.time()").replace("from", "import time\nfrom", 1)
    (tmp_path / "dirty.py").write_text(dirty, encoding="utf-8")
    result = CliRunner().invoke(main, ["lint", str(tmp_path), "--json"])
    assert result.exit_code == 1
    assert [(finding["rule"], finding["line"]) for finding in lines(result)] == [("HF001", 4)]
    assert "dirty.py:4:" in CliRunner().invoke(main, ["lint", str(tmp_path / "dirty.py")]).stdout
    (tmp_path / "broken.py").write_text("def :", encoding="utf-8")
    assert CliRunner().invoke(main, ["lint", str(tmp_path)]).exit_code == 2
    assert CliRunner().invoke(main, ["lint", str(tmp_path / "none.py")]).exit_code == 2


def test_an_id_that_leads_elsewhere_is_refused(holdfast: Invoke) -> None:
    """By every command that makes something of it."""
    for command in (
        ("start", "cli_order", "1", "--id", "../done"),
        ("users", "create", "../ann", "--level", "1", "--tenant", "acme"),
        ("tenants", "create", ".."),
        ("fork", "done", "--from", "1", "--id", "a/../done"),
    ):
        refused = holdfast(*command)
        assert refused.exit_code != 0, command
        assert "has a segment '.' or '..'" in refused.stderr, (command, refused.stderr)


def test_a_run_of_an_older_version_is_found_by_such_an_id(holdfast: Invoke, database: str) -> None:
    """It is shown, and cancelled, and no other run is."""

    async def fill() -> None:
        async with Holdfast(database, worker=False) as app:
            await older_run(app, cli_shop.order, "default", "../waiting", 1)

    asyncio.run(fill())
    assert json.loads(holdfast("show", "../waiting", "--json").stdout)["id"] == "../waiting"
    assert holdfast("cancel", "../waiting", "--reason", "a test").exit_code == 0
    assert not json.loads(holdfast("show", "waiting", "--tenant", "acme", "--json").stdout)["cancelling"]
