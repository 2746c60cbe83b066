"""A light start: a program or a command loads only the modules that it needs."""

from __future__ import annotations

import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.exits import NOT_FOUND

HEAVY = ("anyio", "asyncpg", "cel", "cel_expr_python", "cryptography", "httpcore", "httpx", "redis", "yaml")
REPORT = f"import sys; print(sorted(set({HEAVY!r}) & sys.modules.keys()), file=sys.stderr)"


def _python(code: str, *, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "HOLDFAST"))}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=directory, env=environment, timeout=60
    )


def _loaded(code: str, directory: Path | None = None) -> str:
    done = _python(f"{code}\n{REPORT}", directory=directory)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1]


def _command(*arguments: str, code: int = 0) -> str:
    return (
        "import sys\nfrom holdfast.cli.main import main\n"
        f"sys.argv[:] = ['holdfast', *{list(arguments)!r}]\n"
        f"try: main()\nexcept SystemExit as end: assert (end.code or 0) == {code}, end.code"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import holdfast",
        "from holdfast import *",
        "from holdfast import Holdfast, step, workflow, action",
        "import holdfast.testing",
        "from holdfast.transports.table import find; find('http').write({'get': 'https://a.example/'}, {})",
        _command("--help"),
        _command("--version"),
        _command("list", "--help"),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str) -> None:
    """No cryptography, CEL, YAML, asyncpg, Redis or HTTP library: each is loaded by the part that uses it."""
    assert _loaded(code) == "[]"


def test_listing_and_showing_load_nothing_heavy(tmp_path: Path) -> None:
    """They read a store, and judge, sign and seal nothing."""
    assert _loaded(_command("migrate"), tmp_path) == "[]"
    assert _loaded(_command("list"), tmp_path) == "[]"
    assert _loaded(_command("show", "nobody", code=NOT_FOUND), tmp_path) == "[]"
    assert _loaded(_command("list", "--wakeups", "redis://localhost:1"), tmp_path) == "[]"


PARTS = """
import sys
definitions = tuple(f"holdfast.programs.definition.{part}" for part in ("compiler", "interpreter", "migration"))
parts = ("holdfast.worker.", "holdfast.audit", *definitions)
print(*sorted(name for name in sys.modules if name.startswith(parts)), file=sys.stderr)
"""
FILL = """
from holdfast import SyncHoldfast
with SyncHoldfast("sqlite:///holdfast.db", worker=False) as app:
    app.start("anything", id="one")
"""


def _parts_loaded(code: str, directory: Path) -> list[str]:
    """The modules of the worker, of the audit, and of what compiles and runs definitions that the code loads."""
    done = _python(f"{code}\n{PARTS}", directory=directory)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1].split()


def test_whoever_only_looks_at_runs_loads_no_worker_and_no_audit(tmp_path: Path) -> None:
    """Neither the client nor ``list``, ``show`` and ``journal``; a worker's options are a small module. Nor do they
    load what definitions need; the synchronous client and who starts something by its name do."""
    options = ["holdfast.worker.options"]
    assert _parts_loaded("from holdfast import Holdfast, RunHandle, WorkerOptions", tmp_path) == options
    filled = _parts_loaded(FILL, tmp_path)
    assert [part for part in filled if not part.startswith("holdfast.programs.")] == options
    for command in (("list",), ("list", "--json"), ("show", "one"), ("journal", "one"), ("explain", "one")):
        assert _parts_loaded(_command(*command), tmp_path) == options, command


def test_importing_the_package_loads_none_of_its_parts_but_errors() -> None:
    """A name brings its module with it, not all of them."""
    done = _python("import holdfast, sys; print(*sorted(name for name in sys.modules if name.startswith('holdfast')))")
    assert {".".join(name.split(".")[:2]) for name in done.stdout.split()} == {"holdfast", "holdfast.errors"}


def test_each_name_is_there() -> None:
    """``__all__``, ``dir()`` and what can be imported are the same; a name is one object however it is asked for."""
    assert set(holdfast.__all__) <= set(dir(holdfast))
    assert dir(holdfast) == sorted(dir(holdfast))
    found: dict[str, object] = {}
    exec("from holdfast import *", found)
    assert {name for name in found if not name.startswith("__")} == set(holdfast.__all__)
    assert all(getattr(holdfast, name) is found[name] for name in holdfast.__all__)


def test_a_name_that_is_not_there_is_refused_as_always() -> None:
    """By the usual error, which ``hasattr`` and ``from … import`` understand."""
    assert not hasattr(holdfast, "nothing")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from holdfast import nothing")


def test_what_type_checkers_read_is_what_is_imported() -> None:
    """The imports for type checkers, those at run time and the table name the same things in the same places."""
    tree = ast.parse(Path(holdfast.__file__).read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    lazy = {
        alias.name: node.module for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    eager = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert lazy == holdfast._HOMES
    assert {*lazy, *(eager - {"TYPE_CHECKING", "Any"})} == set(holdfast.__all__)


def test_what_is_pickled_is_found_again_in_a_fresh_process() -> None:
    """By the module that it lives in, which is loaded then."""
    data = pickle.dumps((holdfast.RetryPolicy(), holdfast.WorkerOptions, holdfast.RunFailed))
    done = _python(f"import pickle; print(pickle.loads({data!r}))")
    assert "RetryPolicy(" in done.stdout, done.stderr


FIRST_USE_IN_A_BODY = """
import asyncio, sys
import holdfast
from holdfast.cli.exits import NOT_FOUND
from holdfast import Holdfast, step, workflow

@step
async def double(number: int) -> int:
    return 2 * number

@workflow
async def body(number: int) -> list:
    missing = [name for name in holdfast.__all__ if name not in vars(holdfast)]
    for name in missing:
        getattr(holdfast, name)  # for the first time here, where blocking calls are refused
    from holdfast import now, verify_evidence
    import cryptography.hazmat.primitives.asymmetric.ed25519, yaml
    return [await double(number), now() is not None, len(missing) > 5]

async def main() -> None:
    async with Holdfast("memory://") as app:
        handle = await app.start(body, 21)
        print(await asyncio.wait_for(handle.result(), 30))

asyncio.run(main())
"""


def test_names_can_be_used_for_the_first_time_inside_a_workflow_body(tmp_path: Path) -> None:
    """Loading a module there is no blocking call: the guards let it pass, and the run ends as it should."""
    program = tmp_path / "program.py"
    program.write_text(FIRST_USE_IN_A_BODY, encoding="utf-8")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[42, True, True]", done.stderr
