"""``lint`` finds code in a workflow's or a machine's body that cannot replay, from its source and without running it.

Only functions decorated with Holdfast's ``workflow`` or ``machine`` are judged, with everything written inside them.
Steps are exempt, and so is a function inside a body that is only given to ``perform``. Names are followed through
imports (``import time as t``, ``from datetime import datetime as dt``, ``from holdfast import *``), never through
assignments, so there are no false findings. A line is silenced by ``# holdfast: ignore[HF001]``, or by
``# holdfast: ignore`` for every rule.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import InvalidRequest

RULES: Final[dict[str, str]] = {
    "HF001": "the wall clock differs in every replay: use holdfast.now()",
    "HF002": "randomness differs in every replay: use holdfast.random() or holdfast.uuid()",
    "HF003": "a blocking call stops every run of the worker: use asyncio.sleep() to wait, and a @step for all else",
    "HF004": "the environment may differ in the next replay: pass the value as an argument, or read it in a @step",
    "HF005": "threads and processes cannot replay: await a @step, or several with asyncio.gather()",
    "HF006": "the order of a set may differ in the next replay: iterate over sorted(…)",
    "HF007": "id() and hash() differ from process to process: compare or store the value itself",
    "HF008": "state outside the body is not replayed: keep it in local variables, arguments and results",
    "HF009": "a call that is not awaited is never done: write await before it",
}
"""Every rule by id, with its remedy. Ids never change."""

MACHINE_REMEDIES: Final[dict[str, str]] = {
    "HF001": "the wall clock differs in every replay: use cell.now",
    "HF002": "randomness differs in every replay: use cell.random or cell.uuid()",
    "HF003": "a blocking call stops every cell of the worker: use cell.send(…, after=…) to wait, and an effect for all "
    "else",
    "HF004": "the environment may differ in the next replay: have the value in the event, or ask for it with an effect",
    "HF005": "threads and processes cannot replay: ask for effects with cell.do()",
    "HF008": "state outside the body is not replayed: keep it in the state that the machine returns",
    "HF009": "an effect that is called in a machine is not recorded: ask for it with cell.do()",
}
"""What to do about a rule in a machine, where it is something else."""

_CALLS: Final[dict[str, tuple[str, ...]]] = {
    "HF001": (
        "time.time",
        "time.time_ns",
        "time.monotonic",
        "time.monotonic_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.localtime",
        "time.gmtime",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.datetime.today",
        "datetime.date.today",
    ),
    "HF002": ("random.*", "secrets.*", "os.urandom", "uuid.uuid1", "uuid.uuid4", "numpy.random.*"),
    "HF003": (
        "time.sleep",
        "requests.*",
        "httpx.*",
        "urllib.request.*",
        "socket.*",
        "subprocess.*",
        "os.system",
        "os.popen",
        "open",
        "input",
    ),
    "HF004": ("os.getenv", "os.environ.*"),
    "HF005": (
        "threading.*",
        "multiprocessing.*",
        "concurrent.futures.*",
        "asyncio.to_thread",
        "asyncio.create_subprocess_exec",
        "asyncio.create_subprocess_shell",
    ),
    "HF007": ("id", "hash"),
}
"""The refused functions, by full name; ``x.*`` is everything below ``x``."""

_METHODS: Final = {
    "read_text": "HF003",
    "read_bytes": "HF003",
    "write_text": "HF003",
    "write_bytes": "HF003",
    "run_in_executor": "HF005",
}
"""The refused methods, by name, on any object."""

_BUILTINS: Final = frozenset({"open", "input", "id", "hash", "set", "frozenset"})

_IGNORE: Final = re.compile(r"#\s*holdfast:\s*ignore(?:\[([^\]]*)\])?")

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Finding(msgspec.Struct, frozen=True, order=True):
    """One place that cannot replay. Lines and columns count from 1."""

    path: str
    line: int
    column: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.rule} {self.message}"


class LintReport(msgspec.Struct, frozen=True):
    """All findings, and how many workflows and machines were judged for them."""

    findings: list[Finding]
    workflows: int = 0
    machines: int = 0


def lint_source(source: str, path: str) -> LintReport:
    """Judge one module's source. Raises InvalidRequest, with the position, if it is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line, column = getattr(error, "lineno", None) or 1, getattr(error, "offset", None) or 1
        reason = getattr(error, "msg", None) or str(error)
        raise InvalidRequest(
            f"{path}:{line}:{column}: this is not valid Python ({reason}): correct it first"
        ) from error
    imports = _imports(tree)
    durable = {function.name for function in _decorated(tree, imports, ("step", "action", "workflow"))}
    bodies = {kind: _decorated(tree, imports, (kind,)) for kind in ("workflow", "machine")}
    found = {
        finding
        for kind, ours in bodies.items()
        for body in ours
        for finding in _Judge(path, imports, body, durable, kind).findings()
    }
    lines = source.splitlines()
    findings = sorted(finding for finding in found if not _silenced(lines[finding.line - 1], finding.rule))
    return LintReport(findings, len(bodies["workflow"]), len(bodies["machine"]))


def lint_paths(paths: Iterable[str | Path]) -> LintReport:
    """Judge files, and every ``*.py`` below directories, in the order of their names."""
    reports: list[LintReport] = []
    for path in map(Path, paths):
        if not path.exists():
            raise InvalidRequest(f"{path} does not exist: name a Python file or a directory of them")
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            try:
                source = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise InvalidRequest(f"{file} cannot be read ({error})") from error
            reports.append(lint_source(source, str(file)))
    return LintReport(
        [finding for report in reports for finding in report.findings],
        sum(report.workflows for report in reports),
        sum(report.machines for report in reports),
    )


def _silenced(line: str, rule: str) -> bool:
    comment = _IGNORE.search(line)
    if comment is None:
        return False
    return comment[1] is None or rule in re.split(r"[,\s]+", comment[1].strip())


def _imports(tree: ast.Module) -> dict[str, str]:
    """The full name behind each imported name, from all imports of the module."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                names[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if alias.name == "*":
                    names.update({name: f"{node.module}.{name}" for name in _exported(node.module)})
                else:
                    names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


@cache
def _exported(module: str) -> tuple[str, ...]:
    """The names that ``from module import *`` binds: of Holdfast, and of the standard library's modules in the rules.

    No other module is imported for this, because an import runs its code.
    """
    root = module.partition(".")[0]
    ruled = {pattern.partition(".")[0] for patterns in _CALLS.values() for pattern in patterns}
    if root != "holdfast" and not (root in ruled and root in sys.stdlib_module_names):
        return ()
    try:
        loaded = importlib.import_module(module)
    except ImportError:
        return ()
    return tuple(getattr(loaded, "__all__", None) or (name for name in vars(loaded) if not name.startswith("_")))


def _full_name(node: ast.expr, imports: dict[str, str]) -> str | None:
    """The dotted name that an expression stands for; None where it is neither imported nor a builtin."""
    match node:
        case ast.Name(id=name):
            return imports.get(name, name if name in _BUILTINS else None)
        case ast.Attribute(value=value, attr=attribute):
            owner = _full_name(value, imports)
            return None if owner is None else f"{owner}.{attribute}"
        case _:
            return None


def _decorated(tree: ast.Module, imports: dict[str, str], names: tuple[str, ...]) -> list[_Function]:
    """The functions decorated with one of these decorators of Holdfast."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, _Function) and any(_is_ours(one, imports, names) for one in node.decorator_list)
    ]


def _is_ours(decorator: ast.expr, imports: dict[str, str], names: tuple[str, ...]) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    package, _, name = (_full_name(target, imports) or "").rpartition(".")
    return package.partition(".")[0] == "holdfast" and name in names


class _Judge:
    """Judges the body of one workflow or machine."""

    def __init__(self, path: str, imports: dict[str, str], body: _Function, durable: set[str], kind: str) -> None:
        self._path = path
        self._kind = kind
        self._body = body
        self._bound = _bound(body)
        self._durable = durable - self._bound
        self._imports = {name: full for name, full in imports.items() if name not in self._bound}
        self._performed = _performed(body, self._imports)

    def findings(self) -> Iterator[Finding]:
        waiting: list[ast.AST] = list(self._body.body)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.AsyncFunctionDef) and node.name in self._performed:
                yield from self._judge_step(node)
                continue
            yield from self._judge(node)
            waiting.extend(ast.iter_child_nodes(node))

    def _judge_step(self, step: ast.AsyncFunctionDef) -> Iterator[Finding]:
        """A step inside the body may do everything but change the body's own variables: a replay does not run it."""
        for node in ast.walk(step):
            if isinstance(node, ast.Nonlocal) and not set(node.names) <= _bound(step):
                yield self._finding(node, "HF008", f"nonlocal {', '.join(node.names)}")

    def _judge(self, node: ast.AST) -> Iterator[Finding]:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in self._durable:
                yield self._finding(node, "HF009", f"{name}()")
            case ast.Expr(value=ast.Call(func=function)) if _is_ours(function, self._imports, ("perform",)):
                yield self._finding(node, "HF009", "perform()")
            case ast.Call(func=function):
                yield from self._called(node, function)
            case ast.Subscript(value=value) if self._name(value) == "os.environ":
                yield self._finding(node, "HF004", "os.environ")
            case ast.Compare(comparators=comparators) if any(self._name(one) == "os.environ" for one in comparators):
                yield self._finding(node, "HF004", "os.environ")
            case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated) | ast.comprehension(iter=iterated):
                if self._is_set(iterated):
                    yield self._finding(iterated, "HF006", "iteration over a set")
            case ast.Global(names=names):
                yield self._finding(node, "HF008", f"global {', '.join(names)}")
            case ast.Nonlocal(names=names) if not set(names) <= self._bound:
                yield self._finding(node, "HF008", f"nonlocal {', '.join(names)}")

    def _called(self, node: ast.Call, function: ast.expr) -> Iterator[Finding]:
        name = self._name(function)
        rule = None if name is None else _rule_of(name)
        if name is not None and rule is not None:
            yield self._finding(node, rule, f"{name}()")
        elif isinstance(function, ast.Attribute) and function.attr in _METHODS:
            yield self._finding(node, _METHODS[function.attr], f".{function.attr}()")

    def _is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Call(func=function):
                return self._name(function) in ("set", "frozenset")
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
                return self._is_set(left) or self._is_set(right)
            case _:
                return False

    def _name(self, node: ast.expr) -> str | None:
        name = _full_name(node, self._imports)
        return None if name in self._bound else name

    def _finding(self, node: ast.stmt | ast.expr, rule: str, what: str) -> Finding:
        remedy = MACHINE_REMEDIES.get(rule, RULES[rule]) if self._kind == "machine" else RULES[rule]
        message = f"{what} in {self._kind} {self._body.name}: {remedy}"
        return Finding(self._path, node.lineno, node.col_offset + 1, rule, message)


def _performed(body: _Function, imports: dict[str, str]) -> set[str]:
    """The names of functions that the body gives to ``perform``, and uses for nothing else."""
    performed = {
        call.args[1]
        for call in ast.walk(body)
        if isinstance(call, ast.Call) and len(call.args) > 1 and _is_ours(call.func, imports, ("perform",))
    }
    names = {node.id for node in performed if isinstance(node, ast.Name)}
    for node in ast.walk(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in performed:
            names.discard(node.id)
    return names


def _rule_of(name: str) -> str | None:
    for rule, patterns in _CALLS.items():
        for pattern in patterns:
            if name == pattern or (pattern.endswith(".*") and name.startswith(pattern[:-1])):
                return rule
    return None


def _bound(body: _Function) -> set[str]:
    """The names that the function, or a function inside it, binds itself; imports are not counted."""
    names: set[str] = set()
    for scope in ast.walk(body):
        if not isinstance(scope, _Scope):
            continue
        arguments = scope.args
        taken = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        names.update(argument.arg for argument in taken if argument is not None)
        elsewhere: set[str] = set()
        assigned: set[str] = set()
        for node in _own(scope):
            match node:
                case ast.Global(names=declared) | ast.Nonlocal(names=declared):
                    elsewhere.update(declared)
                case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    assigned.add(name)
        names |= assigned - elsewhere
    return names


def _own(scope: _Scope) -> Iterator[ast.AST]:
    """The nodes of the scope itself: those of functions inside it are left out."""
    waiting: list[ast.AST] = [scope.body] if isinstance(scope, ast.Lambda) else list(scope.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _Scope):
            waiting.extend(ast.iter_child_nodes(node))
