"""In a full session, every test that the conformance page names must have passed, but those that the session leaves
out, and each row must have one that ran.

Outcomes are gathered in the process that gets all reports: the only one, or the controller of xdist. A session that
runs only a part of the suite is not checked.

Assertions in the shipped store suite are rewritten, so that a failure shows the compared values.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from holdfast.programs.function.decorators import STEPS, WORKFLOWS
from holdfast.programs.function.registry import Registry
from holdfast.programs.machine.machine import MACHINES
from holdfast.testing.postgres import PostgresServer, server
from tests import scope
from tests.docs.conformance import LEFT_OUT, ROOT, plain, rows, unproved

pytest.register_assert_rewrite("holdfast.testing.stores")

settings.register_profile(
    "holdfast",
    max_examples=scope.volume(50, 100),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("holdfast")  # a busy machine is slow, and a law holds there all the same


@pytest.fixture(scope="session", autouse=True)
def _state() -> Iterator[None]:
    """What processes of the tests keep of their servers is not kept beside that of this machine's user."""
    with tempfile.TemporaryDirectory(prefix="holdfast-state-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", folder)
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for all tests of this process that leave it as it is; under xdist each of its processes has one."""
    with server(fast=True) as running:
        yield running


REGISTRIES: tuple[Registry[Any], ...] = (STEPS, WORKFLOWS, MACHINES)


@pytest.fixture(autouse=True)
def _declared() -> Iterator[None]:
    """What a test declares in its functions ends with it: engines of the tests after it would serve that as well.

    What a module declares stays, also of one that the test imports.
    """
    before = [dict(registry) for registry in REGISTRIES]
    yield
    for registry, earlier in zip(REGISTRIES, before, strict=True):
        stays = earlier | {name: each for name, each in registry.items() if "<locals>" not in each.qualname}
        if stays != registry._by_name:
            registry._by_name = stays
            registry.changes += 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The tests of a module with the mark ``xdist_group`` run in one process.

    xdist would append the group to the id of each test. From pytest 9.2 on an id cannot be changed: without this, each
    process would make again what the group is to share.
    """
    from xdist.scheduler import LoadGroupScheduling

    class ByModule(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group_of(nodeid.partition("::")[0]) or nodeid

    return ByModule(config, log) if config.getoption("dist") == "loadgroup" else None


@cache
def _group_of(file: str) -> str | None:
    path = ROOT / file
    text = path.read_text() if path.is_file() else ""
    found = re.search(r'^pytestmark = .*xdist_group\("(\w+)"\)', text, re.MULTILINE)
    return found[1] if found else None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis begins at the day's seed, too: its plugin reads the option after this."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(scope.SEED)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Processes of xdist share the work of rewriting the asserts of the tests: it would take each of them 15 seconds.

    Each begins with modules of its own. What it has rewritten is kept in files, where the others find it.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode or not _is_whole(session.config):
        return
    number = int(worker["workerid"].removeprefix("gw"))
    for path in sorted((ROOT / "tests").rglob("test_*.py"))[number :: worker["workercount"]]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # pytest reports it when it collects the module
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what ``tests/scope.py`` leaves out, but no test whose id is on the command line."""
    named = tuple(argument for argument in config.args if "::" in argument)
    stays: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        stays[item.nodeid.startswith(named) or not scope.is_left_out(item)].append(item)
    items[:] = stays[True]
    config.hook.pytest_deselected(items=stays[False])
    config.stash[LEFT_OUT] = {plain(item.nodeid) for item in stays[False]}
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = sorted(config.stash[LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of xdist has ended: it says what it left out, and all of them left out the same."""
    node.config.stash[LEFT_OUT] = set(getattr(node, "workeroutput", {}).get("left_out", ()))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say what is run, and the seed that plays it again."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(session.config, "workerinput"):
        terminal.write_line(scope.describe())


_outcomes: dict[str, set[str]] = {}
_complaints: list[str] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there before the first test is never garbage: no collection walks through all modules and tests again.

    Tests that collect garbage would take a second each.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _outcomes.setdefault(plain(report.nodeid), set()).add(report.outcome)


_NARROWING = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise", "collectonly", "maxfail")


def _is_whole(config: pytest.Config) -> bool:
    """Whether the session runs the whole suite, or the tests of it that its scope has."""
    narrowed = any(config.getoption(name, None) for name in _NARROWING)
    paths = {argument.rstrip("/") for argument in config.args}
    return not narrowed and paths <= {"tests", str(config.rootpath / "tests")}


def _is_full(config: pytest.Config) -> bool:
    """Whether this process gets the reports of all tests, and the session runs the whole suite."""
    return _is_whole(config) and scope.SCOPE != scope.SLICE and not hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or not _is_full(session.config):
        return
    _complaints.extend(unproved(rows(), _outcomes, session.config.stash[LEFT_OUT]))
    if _complaints:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(scope.describe())
    if _complaints:
        terminalreporter.section("docs/conformance.md names tests that prove nothing", red=True)
        for complaint in _complaints:
            terminalreporter.line(complaint)
