"""``def check``, ``show``, ``test``, ``export`` and ``schema``, and starting a definition of an app."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast.cli import exits
from holdfast.cli.main import main
from holdfast.programs.definition.compiler.compiler import compile_document, compile_text
from tests.definitions import CLAIMS

LEAVE = """\
holdfast: definition/1
name: cli.leave
version: 1
start: {type: object, required: [days], properties: {days: {type: integer}}}
steps:
  - balance: {step: cli.leave.balance, as: state.left}
  - done: {end: =state.left - start.days}
tests:
  - {name: some are left, start: {days: 2}, mock: {balance: 5}, expect: {result: 3}}
"""
APP = """\
from pathlib import Path
from holdfast import Holdfast, step

@step(name="cli.leave.balance")
async def balance() -> int:
    return 20

app = Holdfast("sqlite:///{store}")
app.definitions.add(Path(__file__).parent / "leave.yaml")
"""


@pytest.fixture
def leave(tmp_path: Path) -> Path:
    path = tmp_path / "leave.yaml"
    path.write_text(LEAVE, encoding="utf-8")
    return path


def holdfast(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_good_definition_is_named_with_its_digest(leave: Path) -> None:
    done = holdfast("def", "check", str(leave), "--json")
    assert done.exit_code == exits.GOOD, done.output
    assert json.loads(done.stdout)["digest"] == compile_text(LEAVE).digest


def test_a_bad_one_is_refused_with_each_line_and_node(leave: Path) -> None:
    leave.write_text(LEAVE.replace("start.days}", "start.days, when: =stat.x}"), encoding="utf-8")
    done = holdfast("def", "check", str(leave), "--json")
    assert done.exit_code == exits.NO
    (problem,) = json.loads(done.stdout)["problems"]
    assert (problem["line"], problem["node"]) == (7, "done")
    assert "did you mean `state`?" in problem["problem"]


def test_a_step_that_is_gone_after_a_deploy_is_found_by_the_check(leave: Path, tmp_path: Path) -> None:
    """With the app that is to be deployed; without one nobody can know."""
    (tmp_path / "without_it.py").write_text("from holdfast import Holdfast\napp = Holdfast('memory://')\n")
    leave.write_text(LEAVE.replace("cli.leave.balance", "cli.leave.gone"), encoding="utf-8")
    assert holdfast("def", "check", str(leave)).exit_code == exits.GOOD
    done = holdfast("def", "check", str(leave), "--app", str(tmp_path / "without_it.py"))
    assert done.exit_code == exits.NO
    assert "leave.yaml:6:15: balance: there is no step 'cli.leave.gone'" in done.output


@pytest.mark.parametrize("form", ["yaml", "json", "python"])
def test_what_is_exported_compiles_to_the_same_digest(form: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(CLAIMS, encoding="utf-8")
    done = holdfast("def", "export", str(path), "--to", form)
    assert done.exit_code == exits.GOOD, done.output
    if form == "python":
        names: dict[str, Any] = {}
        exec(done.stdout, names)
        assert compile_document(names["definition"].document).digest == compile_text(CLAIMS).digest
    else:
        assert compile_text(done.stdout).digest == compile_text(CLAIMS).digest


def test_the_tests_of_a_file_are_played(leave: Path) -> None:
    assert "1 passed, 0 failed" in holdfast("def", "test", str(leave), "--crash").output
    leave.write_text(LEAVE.replace("result: 3", "result: 4"), encoding="utf-8")
    done = holdfast("def", "test", str(leave))
    assert done.exit_code == exits.NO
    assert "its result is 3, and not 4" in done.output


def test_the_schema_is_printed() -> None:
    assert json.loads(holdfast("def", "schema").stdout)["$id"] == "urn:holdfast:definition:1"


def test_a_definition_of_an_app_is_started_and_its_start_is_checked(leave: Path, tmp_path: Path) -> None:
    app = tmp_path / "leave_cli_app.py"
    app.write_text(APP.replace("{store}", str(tmp_path / "store.db")), encoding="utf-8")
    wrong = holdfast("start", "cli.leave", '{"dys": 2}', "--app", str(app))
    assert wrong.exit_code == exits.USAGE
    assert '"days" is a required property' in wrong.output
    assert holdfast("start", "cli.leaves", '{"days": 2}', "--app", str(app)).exit_code == exits.NOT_FOUND
    good = holdfast("start", "cli.leave", '{"days": 2}', "--id", "L-1", "--app", str(app))
    assert "run L-1 started" in good.output


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_what_is_exported_keeps_its_tests(form: str, leave: Path, tmp_path: Path) -> None:
    target = tmp_path / f"other.{form}"
    assert holdfast("def", "export", str(leave), "--to", form, "-o", str(target)).exit_code == exits.GOOD
    assert "passed  " in (played := holdfast("def", "test", str(target))).output
    assert "1 passed, 0 failed" in played.output


PARENT = """\
holdfast: definition/1
name: cli.parent
version: 1
steps: [{call: {run: cli.leave@^1, with: {days: 2}, as: state.left}}, {other: {run: cli.elsewhere}}]
"""


def test_files_that_are_checked_together_may_run_each_other(leave: Path, tmp_path: Path) -> None:
    """In any order; what none of them has may be somewhere else, unless another version of it is here."""
    parent = tmp_path / "parent.yaml"
    parent.write_text(PARENT, encoding="utf-8")
    done = holdfast("def", "check", str(parent), str(leave), "--json")
    assert done.exit_code == exits.GOOD, done.output
    first, second = map(json.loads, done.stdout.splitlines())
    assert [first["file"], second["file"]] == [str(parent), str(leave)]
    assert first["digest"] != json.loads(holdfast("def", "check", str(parent), "--json").stdout)["digest"]
    parent.write_text(PARENT.replace("@^1", "@^2").replace("days: 2", "days: two"), encoding="utf-8")
    done = holdfast("def", "check", str(leave), str(parent))
    assert done.exit_code == exits.NO
    assert "parent.yaml:4:" in done.output
    assert "cli.leave" in done.output
    parent.write_text(PARENT.replace("days: 2", "days: two"), encoding="utf-8")
    done = holdfast("def", "check", str(leave), str(parent))
    assert "cli.leave cannot be started with this: /days:" in done.output


def test_files_that_run_each_other_in_a_circle_are_refused(leave: Path, tmp_path: Path) -> None:
    """Each is known by its digest once it is accepted, so one of them could only mean something that is not there. But
    where one has a fault, nothing is said of those that run it."""
    head = "holdfast: definition/1\nname: NAME\nversion: 1\nsteps: [{go: {run: OTHER}}]\n"
    for name, other in (("one", "two"), ("two", "three"), ("three", "one")):
        text = head.replace("NAME", name).replace("OTHER", other)
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    for done in (holdfast("def", "check", str(tmp_path)), holdfast("def", "publish", str(tmp_path), "--as", "ann")):
        assert done.exit_code != exits.GOOD
        assert "three.yaml:4:15: go: one runs this definition, too" in done.output.replace("\n", " ")
    (tmp_path / "three.yaml").write_text("name: three", encoding="utf-8")
    done = holdfast("def", "check", str(tmp_path))
    assert all(f"{name}.yaml is in order" in done.output for name in ("one", "two", "leave"))


def test_two_files_of_one_version_are_refused_by_the_check(leave: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(LEAVE.replace("- start.days", "+ start.days"), encoding="utf-8")
    done = holdfast("def", "check", str(leave), str(other), "--json")
    assert done.exit_code == exits.NO
    assert "give the changed one a new version" in json.loads(done.stdout.splitlines()[1])["problems"][0]["problem"]


def test_a_folder_is_checked_and_its_tests_are_played(leave: Path, tmp_path: Path) -> None:
    """Of a folder, all files; of one without definitions it is said, whatever was to be done with them."""
    checked = holdfast("def", "check", str(tmp_path))
    assert (checked.exit_code, "leave.yaml is in order" in checked.stdout) == (exits.GOOD, True)
    assert "1 passed, 0 failed" in holdfast("def", "test", str(tmp_path)).output
    empty = tmp_path / "empty"
    empty.mkdir()
    for command in ("check", "test", "publish"):
        refused = holdfast("def", command, str(empty))
        assert (refused.exit_code, "has no definitions" in refused.output) == (exits.USAGE, True)
