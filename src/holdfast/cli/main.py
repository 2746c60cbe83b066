"""The entry point: the module of each command, and the exit code of each error.

A command's module is imported when the command is used, so ``holdfast --help`` is quick. An error that Holdfast raises
on purpose is one line on stderr (or, with ``--json``, one object on stdout) and an exit code; never a traceback.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click

from holdfast.cli import exits
from holdfast.errors import HoldfastError, StoreUnavailable

COMMANDS: Final = {
    "init": ("people.first:init", "Make a store, a tenant and its first user, with a token."),
    "worker": ("runs.worker:worker", "Run a worker that serves the workflows of APP."),
    "serve": ("server.serve:serve", "Serve the HTTP API, with a worker in the same process."),
    "link": ("server.link:link", "Print the link to a server that --no-auth started."),
    "start": ("runs.start:start", "Start a run."),
    "list": ("runs.listing:list_runs", "List runs, newest first."),
    "show": ("runs.show:show", "Show a run: what it did, what it waits for, how it ended."),
    "journal": ("runs.journal:journal", "Print a run's journal, or check a file of traces."),
    "tail": ("runs.show:tail", "Follow a run's journal until the run has ended."),
    "explain": ("runs.show:explain", "Say in one sentence why a run is not moving."),
    "signal": ("runs.steer:signal", "Send a signal to a run."),
    "cancel": ("runs.steer:cancel", "Ask a run to stop; its cleanup runs first."),
    "pause": ("runs.steer:pause", "Stop a run until it is resumed."),
    "resume": ("runs.steer:resume", "Let a paused or parked run continue."),
    "retry": ("runs.repair:retry", "Let a failed run continue from its failed step."),
    "fork": ("runs.repair:fork", "Start a new run from a prefix of another's journal."),
    "tasks": ("governance.ownership:tasks", "List the tasks of people, show one task, answer a form."),
    "approve": ("governance.answers:approve", "Approve a proposed action."),
    "reject": ("governance.answers:reject", "Reject a proposed action."),
    "delegate": ("governance.ownership:delegate", "Let another person answer a task."),
    "resolve": ("governance.answers:resolve", "Say what became of an act whose outcome is unknown."),
    "receipts": ("governance.receipts:receipts", "List what actions did, or show one receipt."),
    "reverse": ("governance.reverse:reverse", "Take back what an action did."),
    "replay": ("runs.replay:replay", "Replay runs against the current code, without writing."),
    "verify": ("governance.verify:verify", "Check journals, or a file of evidence without any store."),
    "audit": ("governance.audit:audit", "List a tenant's audit, or check its chain."),
    "evidence": ("governance.evidence:evidence", "Write the file that proves what a run did."),
    "keys": ("governance.keys:keys", "List, export or rotate the keys that sign the audit."),
    "lint": ("runs.lint:lint", "Find places in workflow code that would not replay."),
    "def": ("definitions.group:definitions", "Check, show, test, draw and change definitions."),
    "templates": ("templates.group:templates", "Offer programs to be started: make, activate, start templates."),
    "emit": ("templates.instances:emit", "Tell templates that something happened: they start instances."),
    "machines": ("machines.machines:machines", "List, govern and check machines, and send them events."),
    "cells": ("machines.cells:cells", "Look at the cells of a machine, and release parked ones."),
    "schedules": ("schedules.group:schedules", "Make, steer and explain what starts by itself."),
    "webhooks": ("webhooks.incoming:webhooks", "Let others start templates and signal runs."),
    "subscriptions": (
        "webhooks.outgoing:subscriptions",
        "Tell others of runs and tasks.",
    ),
    "tenants": ("people.tenants:tenants", "Make, list and change tenants."),
    "workspaces": ("people.workspaces:workspaces", "Make, list and archive workspaces of a tenant."),
    "users": ("people.users:users", "Make, list and change the users of a tenant."),
    "tokens": ("people.tokens:tokens", "Make, list and revoke tokens of users."),
    "slack": ("people.slack:slack", "Show a tenant's approvals in Slack, and check that."),
    "whoami": ("people.whoami:whoami", "Say for whom a command would act."),
    "policy": ("governance.policies:policy", "Check a policy's file, test it, see why it decides as it does."),
    "backup": ("store.backup:backup", "Write a SQLite store into one file, while workers run."),
    "compact": ("store.compact:compact", "Give the free pages of a SQLite file back."),
    "prune": ("store.upkeep:prune", "Delete runs that ended long ago."),
    "migrate": ("store.upkeep:migrate", "Bring the store's schema up to date."),
    "lost": ("store.lost:lost", "List what a failover has lost, and do it again."),
    "doctor": ("store.doctor:doctor", "Check the installation and the store."),
}
"""Each command with its module and its line in ``holdfast --help``."""

EPILOG: Final = (
    "\b\nExit codes:\n"
    + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in exits.TABLE)
    + "\n\n\b\nEnvironment:\n  HOLDFAST_STORE    the store's URL (default sqlite:///holdfast.db)"
    + "\n  HOLDFAST_TENANT   the tenant (default: default)"
    + "\n  HOLDFAST_POLICY   the file of the policy that judges actions"
    + "\n  HOLDFAST_TOKEN    act for the user of this token"
    + "\n  HOLDFAST_WAKEUPS  hints between processes, beside the store's own (redis://…)"
)


VARIABLES: Final = ("HOLDFAST_STORE", "HOLDFAST_TENANT", "HOLDFAST_POLICY", "HOLDFAST_TOKEN", "HOLDFAST_WAKEUPS")


COLLECTION_THRESHOLD: Final = 20_000
"""So many more objects than were freed, and the garbage collector looks for cycles among the young ones."""


class Commands(click.Group):
    """A group that imports its commands when they are used, and turns every error into a message and an exit code."""

    owns_process = False  # whether this process is one command, and no program that calls one

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from holdfast.cli.callers import bindable

        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"holdfast.cli.{module}"), attribute)
        if self.owns_process:
            gc.freeze()  # what was imported stays until the end: nobody needs to look for garbage in it, even then
        return bindable(command, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader has closed the pipe. Nothing more can be written, not even when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return exits.GOOD

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        if args is None:
            self.owns_process = True
            gc.set_threshold(COLLECTION_THRESHOLD)
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        sys.exit(self._run(arguments, rest, extra))

    def _run(self, args: list[str], rest: tuple[Any, ...], extra: dict[str, Any]) -> int:
        as_json = "--json" in args
        if (garbled := _garbled(args)) is not None:
            return complain(
                "usage", f"{garbled} is not UTF-8: nothing can be stored or found by it", exits.USAGE, as_json
            )
        try:
            code = super().main(args, *rest, **extra)
        except HoldfastError as error:
            return complain(error.code, _final(error), exits.code_for(type(error)), as_json)
        except click.ClickException as error:
            return complain("usage", _usage(error), exits.USAGE, as_json)
        except (click.Abort, KeyboardInterrupt):
            return exits.INTERRUPTED
        return code if isinstance(code, int) else exits.GOOD


def _garbled(args: Sequence[str]) -> str | None:
    """The first argument or variable whose bytes are no text. A URL may hold a password, so it is not shown."""
    for argument in args:
        if not _is_text(argument):
            return "the store's URL" if "://" in argument else repr(os.fsencode(argument)).removeprefix("b")
    return next((name for name, text in os.environ.items() if name in VARIABLES and not _is_text(text)), None)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _final(error: HoldfastError) -> str:
    """The message. What an engine would try again, a command that has ended does not."""
    if error.code != StoreUnavailable.code:
        return str(error)
    return f"{str(error).rstrip('.')}. It is not tried again: with the same id, the command can be repeated."


def _usage(error: click.ClickException) -> str:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message} (`{context.command_path} --help` says more)"


def complain(code: str, message: str, exit_code: int, as_json: bool) -> int:
    """Write an error, and give the exit code back."""
    if as_json:
        import json

        click.echo(json.dumps({"error": {"code": code, "message": message}}, ensure_ascii=False))
    else:
        click.echo(f"error: {message}", err=True)
    return exit_code


@click.group(
    cls=Commands,
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="holdfast", message="holdfast %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Durable workflows from the command line: start runs, look at them, steer and repair them."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(exits.USAGE)


if __name__ == "__main__":
    main(prog_name="holdfast")
