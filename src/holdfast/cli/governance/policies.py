"""``policy``: check a policy's file, test it, and see why it decides as it does. No store is needed."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from holdfast.cli import exits, options, output
from holdfast.errors import InvalidPolicy, InvalidRequest
from holdfast.gate.policy.cases import CaseAction, CaseRun, Result, microseconds, read_cases, try_cases
from holdfast.gate.policy.file import schema_text, text_of
from holdfast.gate.policy.policy import Policy, RuleTrace, Ruling, parse

T = TypeVar("T")

_EFFECTS = {"allow": "green", "deny": "red", "needs_approval": "yellow"}
_OUTCOMES = {"matched": "green", "error": "red"}


@click.group()
def policy() -> None:
    """Check a policy's file, test it, and see why it decides as it does."""


@policy.command()
@click.argument("file")
@options.as_json
def check(file: str, as_json: bool) -> int:
    """Read the policy in FILE (`-` for stdin) and list its problems; exit 1 where there is one."""
    try:
        parsed = _load(file)
    except InvalidPolicy as error:
        if as_json:
            problems = [{"line": line, "column": column, "problem": what} for line, column, what in error.problems]
            output.emit({"file": file, "valid": False, "problems": problems})
        else:
            output.say(str(error))
        return exits.NO
    if as_json:
        output.emit({"file": file, "valid": True, "hash": parsed.hash, "rules": list(parsed.rules)})
    else:
        output.say(f"{file} is in order: {len(parsed.rules)} rule{'s' * (len(parsed.rules) != 1)}, {parsed.hash}")
    return exits.GOOD


@policy.command()
@click.argument("file")
@click.argument("cases")
@options.as_json
def test(file: str, cases: str, as_json: bool) -> int:
    """Test the policy in FILE with the actions in CASES; exit 1 where its decision is not the expected one."""
    with _as_input():
        found = _load(file)
        expected = read_cases(text_of(_read(cases), cases), cases, found.rules)
    results = list(try_cases(found, expected))
    failed = sum(bool(result.wrong) for result in results)
    if as_json:
        for result in results:
            output.emit(_result(result))
    else:
        if results:
            output.table(("case", "result", "effect", "rule", "note"), [_row(result) for result in results])
        output.note(f"{len(results) - failed} passed, {failed} failed")
    return exits.NO if failed else exits.GOOD


@policy.command()
@click.argument("file")
@click.option("--action", required=True, metavar="JSON", help='The action, like {"connector": "slack"}.')
@click.option("--run", default="{}", metavar="JSON", help='The run, like {"tenant": "acme"}.')
@click.option("--actor", metavar="NAME", help="Who started the run.")
@click.option("--time", "moment", metavar="ISO", help="When it is. [now]")
@options.as_json
def explain(file: str, action: str, run: str, actor: str | None, moment: str | None, as_json: bool) -> None:
    """Show what the policy in FILE decides about an action, which rule decides, and the outcome of each rule."""
    with _as_input():
        found = _load(file)
    proposal = _shaped(action, CaseAction, "--action", '{"connector": "slack", "operation": "post"}').proposal()
    facts = _shaped(run, CaseRun, "--run", '{"tenant": "acme"}').facts(actor)
    now = _now(moment)
    ruling = found.decide(proposal, facts, now)
    steps = list(found.steps(proposal, facts, now))
    reached = _reached(ruling, steps)
    if as_json:
        rows = [
            {"rule": step.rule, "effect": step.effect, "outcome": step.outcome, "detail": step.detail, "reached": here}
            for step, here in zip(steps, reached, strict=True)
        ]
        output.emit({**msgspec.to_builtins(ruling), "rules": rows})
        return
    if steps:
        rows_ = [_step(step, ruling, here) for step, here in zip(steps, reached, strict=True)]
        output.table(("", "rule", "effect", "outcome", "when"), rows_)
    output.say(output.TableCell(ruling.effect, _EFFECTS[ruling.effect]), f" by {ruling.stage}: {ruling.reason}")


@policy.command()
@options.as_json
def schema(as_json: bool) -> None:
    """Print the JSON Schema of policy files, for editors."""
    if as_json:
        output.emit(msgspec.json.decode(schema_text()))
    else:
        click.echo(schema_text(), nl=False)


class _BadFile(InvalidRequest):
    """A file that this command cannot use: bad input, not a problem of the installation."""

    code = InvalidPolicy.code


@contextmanager
def _as_input() -> Iterator[None]:
    try:
        yield
    except InvalidPolicy as error:
        raise _BadFile(str(error)) from error


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise _BadFile(f"{file}: the file cannot be read: {error.strerror or error}") from error


def _load(file: str) -> Policy:
    return parse(_read(file), "stdin" if file == "-" else file)


def _shaped(text: str, shape: type[T], option: str, example: str) -> T:
    try:
        return msgspec.convert(options.object_of(text, option, example), shape)
    except msgspec.ValidationError as error:
        raise click.BadParameter(f"{option}: {error}") from error


def _now(moment: str | None) -> int:
    if moment is None:
        moment = datetime.datetime.now(datetime.UTC).isoformat()
    try:
        return microseconds(moment)
    except ValueError as error:
        raise click.BadParameter(f"{moment!r} is no time: write 2026-05-01T12:00:00Z.") from error


def _result(result: Result) -> dict[str, Any]:
    ruling = msgspec.to_builtins(result.ruling)
    return {"case": result.case.name, "passed": not result.wrong, "wrong": result.wrong, "ruling": ruling}


def _row(result: Result) -> list[output.Part]:
    passed = output.TableCell("failed", "red") if result.wrong else output.TableCell("passed", "green")
    note = "; ".join(result.wrong)
    return [result.case.name, passed, result.ruling.effect, result.ruling.rule or "-", note]


def _reached(ruling: Ruling, steps: list[RuleTrace]) -> list[bool]:
    """Which rules were reached: those up to the one that decided, and none where the allowlist decided."""
    if ruling.stage == "allowlist":
        return [False] * len(steps)
    last = next((number for number, step in enumerate(steps) if step.rule == ruling.rule), len(steps))
    return [number <= last for number in range(len(steps))]


def _step(step: RuleTrace, ruling: Ruling, reached: bool) -> list[output.Part]:
    outcome = step.outcome if reached else f"{step.outcome}, but not reached"
    when = output.one_line(step.when)
    return [
        "→" if step.rule == ruling.rule else "",
        step.rule,
        step.effect,
        output.TableCell(outcome, _OUTCOMES.get(step.outcome, "") if reached else "dim"),
        f"{when}   ({step.detail})" if step.detail else when,
    ]
