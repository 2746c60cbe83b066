"""Moving live runs of a definition to another version of it.

A move is asked for by a signal of a reserved name. It carries the definition, so the journal alone says how the run
goes on. Whether a run can move is looked at here, and again when the run takes it up: it may have gone on meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.operators import operator_note
from holdfast.client.pages import rows_of
from holdfast.client.runs.standing import program_at
from holdfast.client.views.moves import MoveInfo
from holdfast.errors import InvalidRequest, RunEnded
from holdfast.journal.events import REVISION
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.kind import Definitions, code_of
from holdfast.programs.definition.migration.plan import MovePlan
from holdfast.programs.definition.migration.revision import write_revision
from holdfast.programs.definition.model import Accepted, ContinueVerb, RunVerb
from holdfast.programs.definition.walks import all_nodes
from holdfast.runs import messages
from holdfast.runs.program_names import DEFINITION
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


class Mover:
    """Moves runs of one engine's store."""

    def __init__(self, app: Holdfast, kind: Definitions) -> None:
        self._app = app
        self._kind = kind

    async def plans(
        self, to: Accepted, tenant: str, runs: Collection[str] | None = None, *, only: str | None = None
    ) -> list[MoveInfo]:
        """What would become of the live runs of that definition, or of these. Those that have it already are left out.

        With ``only`` those that have a definition of another digest are left out, too.
        """
        await self._check_called(to, tenant)
        routine = self._kind.routine(to.canonical, to.digest)
        found = [await self._plan(row, routine, only) async for row in self._rows(to, tenant, runs)]
        return [move for move in found if move is not None]

    async def _check_called(self, to: Accepted, tenant: str) -> None:
        """Raises InvalidRequest where runs that moved could not start what the definition runs."""
        known = {each.digest for each in self._kind.reachable(to)}
        verbs = [node.verb for node in all_nodes(to.definition.steps) if isinstance(node.verb, RunVerb | ContinueVerb)]
        lacking = {bytes.fromhex(verb.digest): verb for verb in verbs if verb.digest and verb.digest not in known}
        kept = await self._app.store.code(tenant, list(lacking)) if lacking else {}
        for digest, verb in lacking.items():
            if digest not in kept:
                raise InvalidRequest(
                    f"{to.definition.name} version {to.definition.version} runs {verb.workflow}@{verb.version}, which "
                    f"tenant {tenant!r} does not have: publish it there first"
                )

    async def _rows(self, to: Accepted, tenant: str, runs: Collection[str] | None) -> AsyncIterator[p.Run]:
        if runs is None:
            query = p.Query(tenant=tenant, workflow=to.definition.name, standings=("queued", "running", "waiting"))
            async for row in rows_of(lambda size, place: self._app.store.find(query, size, place)):
                if row.program_kind == DEFINITION:
                    yield row
            return
        rows = {row.key.run: row for row in await self._app.store.get([p.Key(tenant, run) for run in runs])}
        for run in runs:
            found = rows.get(run)
            if found is None or (found.workflow, found.program_kind) != (to.definition.name, DEFINITION):
                raise InvalidRequest(f"there is no run {run!r} of the definition {to.definition.name} in {tenant!r}")
            if found.standing in p.ENDED:
                raise RunEnded(f"run {run} has ended: it moves no more")
            yield found

    async def _plan(self, row: p.Run, routine: Routine, only: str | None) -> MoveInfo | None:
        program = await program_at(self._app, row)
        if not isinstance(program, DefinitionProgram) or program.routine.digest == routine.digest:
            return None
        if only is not None and program.routine.digest != only:
            return None
        plan = program.plan_move(routine) if program.has_begun else MovePlan("safe")
        versions = program.routine.definition.version, routine.definition.version
        return MoveInfo(row.key.run, row.key.tenant, *versions, plan.verdict, plan.reasons)

    async def ask(self, to: Accepted, move: MoveInfo, by: str | None, reason: str) -> MoveInfo:
        """Ask a run to move. The act and its note in the audit are one commit. One that has ended since is blocked."""
        app, key = self._app, p.Key(move.tenant, move.run)
        for code in [code_of(each) for each in self._kind.reachable(to)]:
            await app.committer.commit(p.KeepCode(key.tenant, code))
        details = {"version": str(move.after), "digest": to.digest}
        note = operator_note(app, key.tenant, "migrate", by, key.run, reason, details)
        message = messages.signal(REVISION, write_revision(to), app.clock.now(), app.token(), None)
        answer = await app.committer.commit(p.Operate(note, (p.Deliver(key, message),)))
        if not isinstance(answer, p.OperatedOn | p.Repeated):
            return msgspec.structs.replace(move, verdict="blocked", reasons=("it has ended meanwhile",))
        app.wake_sealer()
        app.delivered(key)
        app.hint()
        return MoveInfo(move.run, move.tenant, move.before, move.after, move.verdict, (), asked=True)
