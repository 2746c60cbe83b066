"""Loading APP."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.cli.apps import BadApp, check_workflow, load_app
from holdfast.client.engine import Holdfast
from holdfast.errors import InvalidFunction, WorkflowUnknown


@pytest.fixture(autouse=True)
def _own_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.chdir(tmp_path)


def _write(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


ENGINE = "from holdfast import Holdfast\n{} = Holdfast('sqlite:///x.db', worker=False)\n"


def test_a_module_of_the_current_folder_and_a_file_are_found_alike() -> None:
    """``module:attribute``, ``file.py:attribute``, and ``app`` where no attribute is given."""
    _write("apps_one.py", ENGINE.format("app"))
    Path("deeper").mkdir()
    _write("deeper/apps_two.py", ENGINE.format("engine"))
    for spec in ("apps_one", "apps_one:app", "apps_one.py", "deeper/apps_two.py:engine"):
        assert isinstance(load_app(spec), Holdfast), spec


def test_a_module_without_an_engine_serves_its_workflows() -> None:
    """Workflows are enough; the store then comes from the command line."""
    source = "from holdfast import workflow\n@workflow(name='apps_plain')\nasync def plain() -> None: ...\n"
    assert load_app(_write("apps_three.py", source)) is None
    check_workflow("apps_plain")


def test_a_file_imports_its_neighbours() -> None:
    """A file's own folder can be imported from, as when Python runs it."""
    Path("near").mkdir()
    _write("near/apps_neighbour.py", "NAME = 'app'\n")
    _write("near/apps_four.py", "import apps_neighbour\n" + ENGINE.format("app"))
    assert isinstance(load_app("near/apps_four.py"), Holdfast)


@pytest.mark.parametrize(
    ("spec", "source", "message"),
    [
        ("apps_missing:app", "", "there is no module 'apps_missing'"),
        ("apps_missing.py", "", "there is no file"),
        ("apps_bad.py:engine", "x = 1\n", "has no attribute 'engine'"),
        ("apps_bad.py:x", "x = 1\n", "something else than a Holdfast instance as 'x'"),
        ("apps_bad.py", "1 / 0\n", "raised ZeroDivisionError: division by zero (line 1 of "),
        ("apps_bad.py", "x = = 1\n", "raised SyntaxError: "),
        ("apps_bad", "import apps_not_there\n", "No module named 'apps_not_there'"),
    ],
)
def test_an_app_that_cannot_be_used_is_one_sentence(spec: str, source: str, message: str) -> None:
    """What is wrong and where, without the engine's frames."""
    _write("apps_bad.py", source)
    with pytest.raises(BadApp) as caught:
        load_app(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_authors_mistake_keeps_its_own_error() -> None:
    """What Holdfast says about a definition is better than anything said about it here."""
    source = "from holdfast import workflow\n@workflow\ndef plain(): ...\n"
    with pytest.raises(InvalidFunction, match="async def"):
        load_app(_write("apps_five.py", source))


def test_an_unknown_workflow_is_refused_with_those_that_are_known() -> None:
    """A typing error is seen at once."""
    with pytest.raises(WorkflowUnknown, match=r"the app has no workflow .apps_no_such_workflow."):
        check_workflow("apps_no_such_workflow")
