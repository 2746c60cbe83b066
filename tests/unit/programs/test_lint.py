"""``lint`` finds what cannot replay in workflow bodies, and nothing else."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from holdfast.errors import InvalidRequest
from holdfast.programs.function.lint import RULES, Finding, lint_paths, lint_source

IMPORTS = """\
import asyncio
import concurrent.futures
import datetime
import multiprocessing as mp
import os
import random
import secrets
import socket
import subprocess
import threading
import time
import time as t
import urllib.request
import uuid
from datetime import date
from datetime import datetime as dt
from os import environ, getenv
from pathlib import Path
from time import sleep as snooze

import httpx
import numpy as np
import requests

from holdfast import action, step, workflow

@step
async def charge(order): ...

@action(connector="bank", operation="pay")
async def pay(order): ...

@workflow
async def child(order): ...
"""

BAD = [
    ("HF001", "time.time()"),
    ("HF001", "t.monotonic()"),
    ("HF001", "time.perf_counter()"),
    ("HF001", "time.time_ns()"),
    ("HF001", "datetime.datetime.now()"),
    ("HF001", "dt.utcnow()"),
    ("HF001", "dt.now(datetime.UTC)"),
    ("HF001", "date.today()"),
    ("HF001", "datetime.date.today()"),
    ("HF002", "random.random()"),
    ("HF002", "random.Random().choice([1])"),
    ("HF002", "secrets.token_hex()"),
    ("HF002", "os.urandom(8)"),
    ("HF002", "uuid.uuid4()"),
    ("HF002", "uuid.uuid1()"),
    ("HF002", "np.random.rand()"),
    ("HF003", "time.sleep(1)"),
    ("HF003", "snooze(1)"),
    ("HF003", "requests.get('x')"),
    ("HF003", "httpx.AsyncClient()"),
    ("HF003", "urllib.request.urlopen('x')"),
    ("HF003", "socket.create_connection(('x', 1))"),
    ("HF003", "subprocess.run(['x'])"),
    ("HF003", "os.system('x')"),
    ("HF003", "open('x')"),
    ("HF003", "input()"),
    ("HF003", "Path('x').read_text()"),
    ("HF003", "path.write_bytes(b'')"),
    ("HF004", "os.getenv('X')"),
    ("HF004", "getenv('X')"),
    ("HF004", "os.environ['X']"),
    ("HF004", "environ.get('X')"),
    ("HF004", "'X' in os.environ"),
    ("HF005", "threading.Thread(target=print)"),
    ("HF005", "concurrent.futures.ThreadPoolExecutor()"),
    ("HF005", "mp.Pool()"),
    ("HF005", "await asyncio.to_thread(print)"),
    ("HF005", "await asyncio.get_running_loop().run_in_executor(None, print)"),
    ("HF006", "for x in {1, 2}: pass"),
    ("HF006", "for x in set(values): pass"),
    ("HF006", "[x for x in frozenset(values)]"),
    ("HF006", "for x in {v for v in values} | other: pass"),
    ("HF007", "id(values)"),
    ("HF007", "hash(values)"),
    ("HF008", "global counter; counter = 1"),
    ("HF001", "helper = lambda: time.time()"),
    ("HF001", "[time.time() for _ in values]"),
    ("HF001", "def inner():\n    return time.time()"),
    ("HF001", "async def inner():\n    await asyncio.sleep(time.time())"),
    ("HF009", "charge(1)"),
    ("HF009", "if values: pay(order=1)"),
    ("HF009", "async def inner():\n    child(1)"),
]

GOOD = [
    "await asyncio.sleep(1)",
    "dt(2024, 1, 1)",
    "datetime.timedelta(days=1)",
    "uuid.UUID('x')",
    "uuid.uuid5(uuid.NAMESPACE_DNS, 'x')",
    "for x in sorted({1, 2}): pass",
    "if 1 in {1, 2}: pass",
    "len(set(values))",
    "Path('x') / 'y'",
    "values.time()",
    "values.random()",
    "os.path.join('a', 'b')",
    "open = values.open; open('x')",
    "def open(x): ...\nopen(1)",
    "time = values; time.time()",
    "count = 0\ndef bump():\n    nonlocal count\n    count += 1",
    "for x in values | other: pass",
    "call = charge(1)\nvalues.append(charge(2))",
    "charge = values\ncharge(1)",
    "charge(1).close()",
]


def module(body: str, decorator: str = "@workflow", imports: str = IMPORTS) -> str:
    return f"{imports}\n{decorator}\nasync def flow(values, other, path):\n{indent(body, '    ')}\n"


def rules(source: str) -> list[str]:
    return [finding.rule for finding in lint_source(source, "flow.py").findings]


@pytest.mark.parametrize(("rule", "body"), BAD, ids=[body for _, body in BAD])
def test_what_cannot_replay_is_found(rule: str, body: str) -> None:
    """Under any import alias, and in functions, lambdas and comprehensions inside the body."""
    assert rules(module(body)) == [rule]


@pytest.mark.parametrize("body", GOOD)
def test_what_replays_is_left_alone(body: str) -> None:
    """There are no false findings: names that the body binds itself, and harmless calls, are not judged."""
    assert rules(module(body)) == []


def test_every_rule_has_a_sample() -> None:
    """No rule is only claimed."""
    assert {rule for rule, _ in BAD} == set(RULES)


@pytest.mark.parametrize("body", [body for _, body in BAD if "await" not in body])
def test_steps_and_plain_functions_may_do_all_of_it(body: str) -> None:
    """Only workflows replay."""
    assert rules(module(body, "@step")) == []
    assert rules(module(body, "")) == []


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("import time\nfrom holdfast import workflow", "@workflow"),
        ("import time\nfrom holdfast import workflow", "@workflow(name='x')"),
        ("import time\nfrom holdfast import workflow as flow_", "@flow_"),
        ("import time\nimport holdfast", "@holdfast.workflow"),
        ("import time\nimport holdfast as hf", "@hf.workflow(name='x')"),
        ("import time\nfrom holdfast.programs.function.decorators import workflow", "@workflow"),
        ("import time\nfrom holdfast import workflow", "@other\n@workflow"),
    ],
)
def test_the_decorator_is_known_under_any_name(imports: str, decorator: str) -> None:
    """With or without a call, by any alias."""
    assert rules(module("time.time()", decorator, imports)) == ["HF001"]


def test_another_librarys_workflow_is_not_judged() -> None:
    """Only Holdfast's decorator makes a workflow."""
    assert rules(module("time.time()", imports="import time\nfrom elsewhere import workflow")) == []


def test_the_recorded_clock_and_entropy_are_not_flagged() -> None:
    """``from holdfast import random, now, uuid`` is the remedy itself."""
    imports = "import holdfast\nfrom holdfast import now, random, uuid, workflow"
    assert rules(module("now(); random(); uuid(); holdfast.random(); holdfast.now()", imports=imports)) == []


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        ("# holdfast: ignore", []),
        ("# holdfast: ignore[HF001]", []),
        ("# holdfast: ignore[HF002, HF001]", []),
        ("#holdfast:ignore[HF001] because", []),
        ("# holdfast: ignore[HF002]", ["HF001"]),
        ("# ignore", ["HF001"]),
    ],
)
def test_a_comment_silences_its_line(comment: str, found: list[str]) -> None:
    """For the named rules, or for all."""
    assert rules(module(f"time.time()  {comment}")) == found


def test_state_of_an_enclosing_function_is_found() -> None:
    """``nonlocal`` to something outside the workflow is not replayed; within the workflow it is."""
    source = dedent(
        """
        from holdfast import workflow
        def make():
            count = 0
            @workflow
            async def flow():
                nonlocal count
                count += 1
            return flow
        """
    )
    assert rules(source) == ["HF008"]


def test_a_finding_says_where_and_what_to_do() -> None:
    """One line, as compilers write them; columns count from 1."""
    [finding] = lint_source(
        "import time\nfrom holdfast import workflow\n@workflow\nasync def f():\n    time.time()\n", "a.py"
    ).findings
    assert (finding.path, finding.line, finding.column) == ("a.py", 5, 5)
    assert str(finding) == (
        "a.py:5:5: HF001 time.time() in workflow f: the wall clock differs in every replay: use holdfast.now()"
    )


@pytest.mark.parametrize("source", ["def f(:\n", "x = '\0'\n"])
def test_what_is_not_python_is_refused_with_its_position(source: str) -> None:
    """Nothing is judged in part."""
    with pytest.raises(InvalidRequest, match=r"^bad\.py:1:\d+: .*correct it first"):
        lint_source(source, "bad.py")


def test_directories_are_searched_in_order(tmp_path: Path) -> None:
    """Files by name, findings by line."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.py").write_text(module("time.time()\nrandom.random()"))
    (tmp_path / "sub" / "a.py").write_text(module("os.getenv('X')"))
    (tmp_path / "note.txt").write_text("time.time()")
    found: list[Finding] = lint_paths([tmp_path]).findings
    assert [(Path(finding.path).name, finding.rule) for finding in found] == [
        ("b.py", "HF001"),
        ("b.py", "HF002"),
        ("a.py", "HF004"),
    ]
    assert lint_paths([str(tmp_path / "b.py")]).findings == found[:2]


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """A mistyped path must not look like a file without findings."""
    with pytest.raises(InvalidRequest, match="does not exist"):
        lint_paths([tmp_path / "gone.py"])


@pytest.mark.parametrize(
    ("line", "rule", "remedy"),
    [
        ("time.time()", "HF001", "cell.now"),
        ("random.random()", "HF002", "cell.random"),
        ("time.sleep(1)", "HF003", "cell.send"),
        ("os.getenv('X')", "HF004", "effect"),
        ("threading.Thread()", "HF005", "cell.do"),
        ("[each for each in {1, 2}]", "HF006", "sorted"),
        ("hash(state)", "HF007", "the value itself"),
        ("global seen", "HF008", "the state that the machine returns"),
        ("charge(event)", "HF009", "cell.do"),
    ],
)
def test_a_machine_is_judged_like_a_workflow_and_gets_remedies_of_its_own(line: str, rule: str, remedy: str) -> None:
    source = (
        "import os, random, threading, time\nfrom holdfast import machine, step\n"
        "@step\nasync def charge(event): time.sleep(1)\n"
        f"@machine(key='id', effects=[charge])\ndef order(state, event, cell):\n    {line}\n    return state\n"
    )
    [finding] = lint_source(source, "a.py").findings
    assert (finding.line, finding.rule) == (7, rule)
    assert "in machine order: " in finding.message
    assert remedy in finding.message


def test_a_machine_may_ask_for_its_effects() -> None:
    source = (
        "from holdfast import machine, step\n@step\nasync def charge(key): ...\n"
        "@machine(key='id', effects=[charge])\ndef order(state, event, cell):\n"
        "    cell.do(charge, cell.key)\n    return state\n"
    )
    assert lint_source(source, "a.py").findings == []


@pytest.mark.parametrize(
    ("imports", "body", "rule"),
    [
        ("from holdfast import *\nimport time", "time.time()", "HF001"),
        ("from holdfast import *\nfrom time import *", "sleep(1)", "HF003"),
        ("from holdfast import *\nfrom random import *", "randint(1, 6)", "HF002"),
    ],
)
def test_names_are_followed_through_an_import_of_everything(imports: str, body: str, rule: str) -> None:
    """Else ``@workflow`` would be nobody's, and a body full of faults would pass."""
    assert rules(module(body, imports=imports)) == [rule]


def test_a_module_outside_of_the_standard_library_is_never_imported_to_be_judged(tmp_path: Path) -> None:
    """An import runs its code."""
    assert rules(module("anything()", imports="from holdfast import *\nfrom a_module_that_is_not_there import *")) == []


def test_what_was_judged_is_counted(tmp_path: Path) -> None:
    """A report without findings says of how many bodies: none is no praise."""
    (tmp_path / "flow.py").write_text(
        module("pass", imports="from holdfast import workflow") + module("pass", imports="")
    )
    (tmp_path / "order.py").write_text(
        "from holdfast import machine\n@machine(key='id')\ndef order(state, event, cell):\n    return state\n"
    )
    report = lint_paths([tmp_path])
    assert (report.workflows, report.machines, report.findings) == (2, 1, [])
