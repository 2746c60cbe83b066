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
from tests.scope import one_stays

HEAVY = (
    "anyio",
    "asyncpg",
    "authlib",
    "cel",
    "cel_expr_python",
    "cryptography",
    "httpcore",
    "httpx",
    "jinja2",
    "jsonschema_rs",
    "opentelemetry",
    "prometheus_client",
    "redis",
    "rich",
    "starlette",
    "uvicorn",
    "yaml",
)
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


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_loads_neither_asyncio_nor_anything_of_the_engine(arguments: tuple[str, ...]) -> None:
    """What it writes is in the table of commands: only the errors and that table are loaded."""
    code = f"{_command(*arguments)}\nprint(*sorted(sys.modules), file=sys.stderr)"
    loaded = _python(code).stderr.splitlines()[-1].split()
    assert not {"asyncio", "msgspec", "sqlite3"} & {*loaded}
    own = [name for name in loaded if name.startswith("holdfast.") and not name.startswith("holdfast.errors")]
    assert own == ["holdfast.cli", "holdfast.cli.exits", "holdfast.cli.main"]


PARTS = """
import sys
parts = (
    "holdfast.audit",
    "holdfast.gate",
    "holdfast.kernel.execution",
    "holdfast.programs.definition",
    "holdfast.programs.function.decorators",
    "holdfast.programs.machine",
    "holdfast.schedules",
    "holdfast.templates",
    "holdfast.worker.",
)
print(*sorted(name for name in sys.modules if name.startswith(parts)), file=sys.stderr)
"""
FILL = """
from holdfast import SyncHoldfast
with SyncHoldfast("sqlite:///holdfast.db", worker=False) as app:
    app.start("anything", id="one")
"""


def _parts_loaded(code: str, directory: Path) -> list[str]:
    """The modules that the code loads of the worker, of the gate, of the audit, and of what runs programs."""
    done = _python(f"{code}\n{PARTS}", directory=directory)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1].split()


LOOKING = (
    ("list",),
    ("list", "--json"),
    ("list", "--count"),
    ("show", "one"),
    ("journal", "one"),
    ("explain", "one"),
    ("migrate",),
    ("whoami",),
    ("tenants", "list"),
    ("users", "list"),
)


@pytest.mark.long
def test_whoever_only_looks_at_runs_loads_nothing_that_runs_programs(tmp_path: Path) -> None:
    """Neither the client nor these commands: no worker, no gate, no audit, no kernel, and nothing that workflows,
    definitions or machines are written with. Who starts something by its name loads some of it."""
    options = ["holdfast.worker.options"]
    assert _parts_loaded("from holdfast import Holdfast, RunHandle, WorkerOptions", tmp_path) == options
    filled = _parts_loaded(FILL, tmp_path)
    assert not [part for part in filled if part.startswith(("holdfast.audit", "holdfast.worker.w"))]
    for command in LOOKING:
        assert _parts_loaded(_command(*command), tmp_path) == options, command


@pytest.mark.parametrize("command", one_stays(["tasks", "receipts", "audit", "signal one hello", "cancel one"]))
def test_short_commands_load_neither_policies_nor_programs(command: str, tmp_path: Path) -> None:
    """They read what was written, or write a note and a message. What judges and runs is loaded by who does that."""
    _parts_loaded(FILL, tmp_path)
    runs_programs = ("holdfast.gate.policy", "holdfast.kernel.execution", "holdfast.programs.", "holdfast.worker.w")
    assert not [part for part in _parts_loaded(_command(*command.split()), tmp_path) if part.startswith(runs_programs)]


SERVER = """
import sys
from holdfast import Holdfast
from holdfast.client.parts import Parts
from holdfast.server import Server
app = Holdfast("memory://")
Server(app)
before = {*sys.modules}
parts = [name for name, part in vars(Parts).items() if isinstance(part, property)]
for name in (*parts, "starter", "repairs", "retries"):
    getattr(app, name)
print(len(parts) > 12, sorted({*sys.modules} - before))
"""


def test_a_server_has_loaded_its_parts_before_the_first_request() -> None:
    """A light start is for commands: nobody who asks a server waits for its modules."""
    assert _python(SERVER).stdout.split(maxsplit=1) == ["True", "[]\n"]


THREADS = """
import threading
import holdfast
names = [name for name in holdfast.__all__ if name not in vars(holdfast)]
found, begin = [], threading.Barrier(8)
def ask():
    begin.wait()
    found.append([getattr(holdfast, name) for name in names])
threads = [threading.Thread(target=ask) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
print(len(names) > 30, len(found), all(one is other for each in found for one, other in zip(each, found[0])))
"""


def test_threads_that_ask_for_names_at_once_get_the_same_objects() -> None:
    """Each name is imported once, whoever asks first."""
    assert _python(THREADS).stdout == "True 8 True\n"


def test_a_command_of_its_own_process_spares_the_garbage_collector_and_a_called_one_does_not(tmp_path: Path) -> None:
    """What a command has imported is no garbage. A program that calls a command keeps the collector as it set it."""
    report = "import gc; print(gc.get_freeze_count() > 0, gc.get_threshold()[0])"
    assert _python(f"{_command('migrate')}\n{report}", directory=tmp_path).stdout.splitlines()[-1] == "True 20000"
    called = _command("migrate").replace("main()", "main(['migrate'])")
    kept = f"import gc; gc.set_threshold(123)\n{called}\n{report}"
    assert _python(kept, directory=tmp_path).stdout.splitlines()[-1] == "False 123"


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
