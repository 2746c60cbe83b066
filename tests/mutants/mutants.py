"""Engines broken on purpose, each in one named way. A suite that passes on one of them proves nothing about that way.

A mutant replaces one text by another. The text occurs exactly once in the file or folder that is named, so a mutant
whose place has changed is reported, never passed over. ``judges`` are tried in order until one of them finds it.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Judge(msgspec.Struct, frozen=True):
    """A part of the suite: arguments to pytest, or seeds to simulate."""

    name: str
    tests: tuple[str, ...] = ()
    seeds: tuple[int, int] | None = None


class Mutant(msgspec.Struct, frozen=True):
    """One way to break the engine."""

    name: str
    where: str
    old: str
    new: str
    judges: tuple[Judge, ...]


KERNEL: Final = Judge(
    "kernel",
    (
        "tests/unit/kernel/test_attempts.py",
        "tests/unit/kernel/test_replay.py",
        "tests/unit/kernel/test_signals_and_timers.py",
        "tests/unit/kernel/test_worked_journals.py",
    ),
)
SAGAS: Final = Judge("sagas", ("tests/laws/sagas/test_known.py",))
ACTS: Final = Judge("acts", ("tests/laws/test_act_ledger.py", "-k", "found_a_fault"))
TREES: Final = Judge("trees", ("tests/laws/test_trees.py", "-k", "advice"))
LAWS: Final = Judge("laws", ("tests/laws/test_replay_laws.py",))
GOLDEN: Final = Judge("golden", ("tests/journals",))
MEMORY: Final = Judge("memory", ("tests/conformance/test_memory.py",))
SQLITE: Final = Judge("sqlite", ("tests/conformance/test_sqlite.py",))
POSTGRES: Final = Judge("postgres", ("tests/conformance/test_postgres.py", "-k", "fenced or stale or epoch"))
FAILOVER: Final = "tests/acceptance/test_postgres_failover.py"
BROKEN_OFF: Final = Judge("a wait broken off", (FAILOVER, "-k", "broken_off"))
RESTARTED: Final = Judge("a primary restarted", (FAILOVER, "-k", "restart"))
FROZEN: Final = Judge("a primary frozen", (FAILOVER, "-k", "frozen"))
LAGGED: Final = Judge("a standby that lagged", (FAILOVER, "-k", "loudly"))
STRAYS: Final = Judge("strays", ("tests/conformance/test_memory.py", "-k", "unknown_owners"))
NAMES: Final = Judge("names", ("tests/unit/server/names",))
LEASE: Final = Judge("lease", ("tests/unit/worker/test_running.py", "-k", "lapsed"))
HELD_SINCE: Final = Judge("what counts of late answers", ("tests/unit/worker/test_lease.py",))
CALLS: Final = Judge("calls at the gate", ("tests/unit/gate/test_call.py",))
FORMS: Final = Judge("forms", ("tests/unit/worker/test_forms.py", "-k", "in_time"))
JUDGEMENT: Final = Judge("judgement", ("tests/unit/gate/test_judgement.py",))
DEFAULT_KEYS: Final = Judge("default keys", ("tests/unit/programs/test_actions.py", "-k", "default_key"))
INTERPRETER: Final = Judge(
    "the interpreter",
    (
        "tests/unit/programs/definition/test_interpreter.py",
        "tests/unit/programs/definition/test_stopped_calls.py",
    ),
)
DEFINITIONS: Final = Judge("definitions", ("tests/laws/definitions", "-k", "the_interpreter_does or broken_once"))
STOPPED: Final = Judge("stopped runs", ("tests/unit/worker/test_stopped_runs.py", "-k", "memory"))
SIMULATOR: Final = Judge("simulator", seeds=(0, 200))
STEERED: Final = Judge("simulator, steered", seeds=(190000, 60))
CHAIN: Final = Judge("chain", ("tests/unit/audit/test_chain.py",))
RETIRED: Final = Judge("retired keys", ("tests/unit/audit/test_retired_keys.py",))
BUNDLES: Final = Judge("bundles", ("tests/unit/audit/test_bundle_check.py",))

CANCELS_FIRST: Final = Judge("cancels first", ("tests/unit/kernel/test_cancel_first.py",))
PARKED: Final = Judge("parked", ("tests/unit/worker/test_cancelled_while_parked.py",))
CLOCKS: Final = Judge("clocks", ("tests/unit/worker/test_stopped_clocks.py",))
FORKED: Final = Judge("forked", ("tests/unit/worker/test_forked_definitions.py",))

TRACES: Final = Judge("traces of the model", ("tests/unit/testing/model_traces/test_driver.py", "-k", "random"))
RACES: Final = Judge("races of templates", ("tests/unit/templates/test_races.py",))
TENANTS: Final = Judge("tenants", ("tests/simulation/test_templated.py", "-k", "laws_of_tenants"))
TENANT_SEEDS: Final = Judge("named seeds of tenants", ("tests/simulation/test_templated.py", "-k", "found_once"))

MUTANTS: Final = (
    Mutant(
        "fencing-memory",
        "src/holdfast/store/memory/changes.py",
        "(run.generation, run.epoch, run.version) != expected:",
        "(run.generation, change.epoch, run.version) != expected:",
        (MEMORY, SIMULATOR),
    ),
    Mutant(
        "fencing-sqlite",
        "src/holdfast/store/sqlite/statements.sql",
        "id = ?13 AND epoch = ?14 AND version",
        "id = ?13 AND ?14 IS NOT NULL AND version",
        (SQLITE,),
    ),
    Mutant(
        "fencing-postgres",
        "src/holdfast/store/postgres/statements.sql",
        "AND runs.epoch = given.epoch AND runs.version = given.version",
        "AND runs.version = given.version",
        (POSTGRES,),
    ),
    Mutant(
        "unconfirmed-sessions",
        "src/holdfast/store/postgres/sessions.py",
        "if not session.confirmed:",
        "if session is None:",
        (RESTARTED,),
    ),
    Mutant(
        "interrupted-waits-unnoticed",
        "src/holdfast/store/postgres/doubt.py",
        "    if session.warned:",
        "    if session is None:",
        (BROKEN_OFF,),
    ),
    Mutant(
        "existence-answered-unconfirmed",
        "src/holdfast/store/postgres/statements.sql",
        "'holdfast', '') WHERE current_setting('synchronous_standby_names') <> '')",
        "'holdfast', '') WHERE false)",
        (BROKEN_OFF,),
    ),
    Mutant(
        "end-answered-unconfirmed",
        "src/holdfast/store/postgres/statements.sql",
        "WHERE runs.ended_at IS NOT NULL AND current_setting",
        "WHERE false AND current_setting",
        (BROKEN_OFF,),
    ),
    Mutant(
        "old-primary-accepted",
        "src/holdfast/store/postgres/primary.py",
        "if self.is_outdated(session):",
        "if session is None:",
        (FROZEN,),
    ),
    Mutant(
        "lost-acknowledgements-unnoticed",
        "src/holdfast/store/postgres/acknowledged.py",
        "if there or moved",
        "if there",
        (LAGGED,),
    ),
    Mutant(
        "version-memory",
        "src/holdfast/store/memory/changes.py",
        "(run.generation, run.epoch, run.version) != expected:",
        "(run.generation, run.epoch, change.version) != expected:",
        (MEMORY, SIMULATOR),
    ),
    Mutant(
        "version-sqlite",
        "src/holdfast/store/sqlite/statements.sql",
        "AND version = ?15 AND generation",
        "AND ?15 IS NOT NULL AND generation",
        (SQLITE,),
    ),
    Mutant(
        "fencing-of-queued-work",
        "src/holdfast/store/memory/changes.py",
        "if offer is None or offer.done or offer.work.epoch != change.epoch:",
        "if offer is None or offer.done:",
        (MEMORY, SIMULATOR),
    ),
    Mutant(
        "acknowledged-before-commit",
        "src/holdfast/store/committer.py",
        "                answers = await self._store.commit(changes)\n",
        "                from holdfast.store.protocol import Advance, Advanced\n"
        "                for index, early in enumerate(group):\n"
        "                    change = early.change\n"
        "                    if isinstance(change, Advance) and not change.attached:\n"
        "                        early.done(Advanced(change.consumed, None, change.release, ()))\n"
        "                        group[index] = early._replace(done=lambda _: None)\n"
        "                answers = await self._store.commit(changes)\n",
        (SIMULATOR,),
    ),
    Mutant(
        "message-taken-twice",
        "src/holdfast/worker/held.py",
        "if position > self.through:",
        "if position >= self.through:",
        (SIMULATOR,),
    ),
    Mutant(
        "repeated-message-accepted",
        "src/holdfast/store/memory/changes.py",
        "if message.id is not None and message.id in tables.deliveries.get(addressed, ()):",
        "if message.id is not None and message.id in ():",
        (MEMORY, SIMULATOR),
    ),
    Mutant(
        "signal-delivered-twice",
        "src/holdfast/kernel",
        "self._pen.record(e.SignalDelivered(name, signal.payload, self._pen.ledger.next_delivery(name)))",
        "for _ in 'ab': "
        "self._pen.record(e.SignalDelivered(name, signal.payload, self._pen.ledger.next_delivery(name)))",
        (KERNEL, SIMULATOR),
    ),
    Mutant(
        "promise-id-reused",
        "src/holdfast/kernel",
        "self.next_child += 1",
        "self.next_child += self.next_child == 0",
        (KERNEL, LAWS, SIMULATOR),
    ),
    Mutant(
        "step-begun-before-its-intent",
        "src/holdfast/worker",
        "        self._dispatcher.end(held, work.abandon, work.stop)\n",
        "        self._dispatcher.end(held, work.abandon, work.stop)\n"
        "        for request in work.invoke:\n            self._dispatcher.begin(held, request)\n"
        "        work.invoke.clear()\n",
        (SIMULATOR,),
    ),
    Mutant(
        "epoch-kept-on-rescue",
        "src/holdfast/store/memory/store.py",
        "tables.put(replace(run, owner=None, epoch=run.epoch + 1, ready_at=now, crashes=run.crashes + died))",
        "tables.put(replace(run, owner=None, ready_at=now, crashes=run.crashes + died))",
        (MEMORY, SIMULATOR),
    ),
    Mutant(
        "epoch-kept-on-claim",
        "src/holdfast/store/memory/store.py",
        "                    owner=worker,\n                    epoch=run.epoch + 1,\n",
        "                    owner=worker,\n",
        (MEMORY, SIMULATOR),
    ),
    Mutant(
        "epoch-kept-on-rescue-sqlite",
        "src/holdfast/store/sqlite/statements.sql",
        "UPDATE runs SET owner = NULL, epoch = epoch + 1, ready_at = ?2, crashes",
        "UPDATE runs SET owner = NULL, ready_at = ?2, crashes",
        (SQLITE,),
    ),
    Mutant(
        "hash-chain-ignored",
        "src/holdfast/runs/segments.py",
        "if chain(previous, segment.events) != segment.head:",
        "if not segment.head:",
        (GOLDEN,),
    ),
    Mutant(
        "delivered-out-of-journal-order",
        "src/holdfast/kernel",
        "for promise, outcome in settled:",
        "for promise, outcome in reversed(settled):",
        (KERNEL, LAWS),
    ),
    Mutant(
        "commands-not-compared",
        "src/holdfast/kernel",
        "if not same(recorded.event, event):",
        "if same(recorded.event, event) is None:",
        (KERNEL, LAWS),
    ),
    Mutant(
        "signals-lost-when-continuing",
        "src/holdfast/worker",
        "in execution.ledger.unconsumed():",
        "in execution.ledger.unconsumed()[1:]:",
        (SIMULATOR,),
    ),
    Mutant(
        "timer-fires-early",
        "src/holdfast/kernel",
        "if due is not None and due <= now else None",
        "if due is not None and due <= now + 1_000_000 else None",
        (KERNEL, LAWS, SIMULATOR),
    ),
    Mutant(
        "lease-kept-after-release",
        "src/holdfast/store/memory/changes.py",
        "owner=None if (change.release or ends) and idle else run.owner,",
        "owner=None if ends and idle else run.owner,",
        (MEMORY, SIMULATOR),
    ),
    Mutant(
        "takeover-asks-for-nothing",
        "src/holdfast/worker",
        "if self._held.fresh and not execution.ended:",
        "if self._held.fresh and execution.ended:",
        (SIMULATOR,),
    ),
    Mutant(
        "local-lease-ignored",
        "src/holdfast/worker/presence/lease.py",
        "return self._time() < self._deadline",
        "return self._deadline >= 0",
        (LEASE,),
    ),
    Mutant(
        "retried-beyond-the-policy",
        "src/holdfast/kernel",
        "if attempt >= policy.max_attempts or pending.stopped:",
        "if attempt > policy.max_attempts:",
        (KERNEL, LAWS, SIMULATOR),
    ),
    Mutant(
        "lost-claim-forgotten",
        "src/holdfast/worker/roles/claimer.py",
        "if self._doubts:",
        "if not self._lease:",
        (SIMULATOR,),
    ),
    Mutant(
        "strays-left-alone",
        "src/holdfast/store/memory/store.py",
        "[*gone, *sorted(strays - tables.workers.keys())]",
        "gone",
        (STRAYS,),
    ),
    Mutant(
        "parent-never-notified",
        "src/holdfast/worker",
        "if carried_on is not None and held.parent is not None:",
        "if renewal is not None and carried_on is not None and held.parent is not None:",
        (SIMULATOR,),
    ),
    Mutant(
        "inbox-dropped-unread",
        "src/holdfast/store/memory/changes.py",
        "_drop_messages(tables, run.key, change.consumed)",
        "_drop_messages(tables, run.key, change.consumed + 1)",
        (MEMORY, SIMULATOR),
    ),
    Mutant(
        "unknown-outcome-repeated",
        "src/holdfast/gate/judgement.py",
        "return None if safe_to_retry else AskOutcome(receipt)",
        "return None",
        (SIMULATOR,),
    ),
    Mutant(
        "answer-taken-for-another-attempt",
        "src/holdfast/gate/judgement.py",
        "if task is not None and is_about(task, receipt):",
        "if task is not None:",
        (SIMULATOR,),
    ),
    Mutant(
        "proposal-not-compared",
        "src/holdfast/gate/judgement.py",
        "if task.proposal != proposal.digest() or not _is_enough(task, wanted):",
        "if not _is_enough(task, wanted):",
        (JUDGEMENT,),
    ),
    Mutant(
        "receipt-not-closed",
        "src/holdfast/worker/gate/acts.py",
        "held.gate_of_run().carry(closing)",
        "held.gate_of_run().closings.copy()",
        (SIMULATOR,),
    ),
    Mutant(
        "late-claim-taken",
        "src/holdfast/worker/presence/lease.py",
        "return self.losses == losses and self.alive()",
        "return True",
        (HELD_SINCE,),
    ),
    Mutant(
        "default-key-of-the-place-alone",
        "src/holdfast/programs/function/actions.py",
        "{promise}:{_sha256(asked)[:12]}",
        "{promise}",
        (DEFAULT_KEYS,),
    ),
    Mutant(
        "judged-twice-at-once",
        "src/holdfast/worker",
        'held.gate_of_run().move(call, "decided")',
        "None",
        (Judge("judged once", ("tests/unit/worker/test_judged_once.py",)),),
    ),
    Mutant(
        "attempts-share-a-token",
        "src/holdfast/worker",
        'f"{self._worker}~{next(self._attempts)}"',
        'f"{self._worker}~{len(self._worker)}"',
        (SIMULATOR,),
    ),
    Mutant(
        "each-attempt-is-a-write",
        "src/holdfast/gate/judgement.py",
        " and not known.own  #",
        "  #",
        (STEERED,),
    ),
    Mutant(
        "evidence-is-made-once",
        "src/holdfast/store/memory/audit.py",
        "if run is not None and run.evidence is not None:",
        "if False:",
        (STEERED,),
    ),
    Mutant(
        "a-repetition-hides-the-first",
        "src/holdfast/worker/gate/governor.py",
        "calls.carry(entries.unknown(held, call, before, now))",
        "None",
        (Judge("unknown outcomes", ("tests/unit/worker/test_unknown_outcomes.py", "-k", "safe_to_repeat")),),
    ),
    Mutant(
        "a-chain-does-not-bind-its-digests",
        "src/holdfast/audit/chain.py",
        "if head != block.head:",
        "if head != block.head and block.form != CHAIN:",
        (BUNDLES,),
    ),
    Mutant(
        "a-tree-does-not-bind-its-digests",
        "src/holdfast/audit/chain.py",
        "if head != block.head:",
        "if head != block.head and block.form == CHAIN:",
        (BUNDLES,),
    ),
    Mutant(
        "a-blocks-signature-is-not-looked-at",
        "src/holdfast/audit/chain.py",
        "if not is_signed(public, block.signature, message_of(block)):",
        "if not block.signature:",
        (BUNDLES,),
    ),
    Mutant(
        "a-retired-key-goes-on-signing",
        "src/holdfast/audit/retirement.py",
        "if bound is None or block.number < bound.number:",
        "if bound is None or block.number != bound.number:",
        (RETIRED,),
    ),
    Mutant(
        "any-end-is-believed",
        "src/holdfast/audit/retirement.py",
        "if root == by.heads else None",
        "",
        (RETIRED,),
    ),
    Mutant(
        "a-forged-answer-is-acted-on",
        "src/holdfast/worker/gate/governor.py",
        "if call.unwitnessed:",
        "if False:",
        (Judge("forged answers", ("tests/unit/worker/test_forged_answers.py",)),),
    ),
    Mutant(
        "an-answer-counts-that-the-audit-does-not-record",
        "src/holdfast/worker/gate/answers.py",
        "if (problem := task_problem(task, entries)) is not None:",
        "if (problem := None) is not None:",
        (Judge("forged answers", ("tests/unit/worker/test_forged_answers.py",)),),
    ),
    Mutant(
        "an-empty-block-is-sealed",
        "src/holdfast/audit/chain.py",
        "if block.count < 1 or (",
        "if (",
        (CHAIN,),
    ),
    Mutant(
        "a-leaf-passes-for-a-node",
        "src/holdfast/audit/merkle.py",
        'hashlib.sha256(b"\\1" + left + right)',
        "hashlib.sha256(left + right)",
        (CHAIN,),
    ),
    Mutant(
        "delegating-counts-as-approving",
        "src/holdfast/tasks/answers.py",
        "{person(said.who) for said in answers if said.verdict == APPROVED}",
        "{person(said.who) for said in answers}",
        (SIMULATOR,),
    ),
    Mutant(
        "a-signal-is-received-behind-a-completion",
        "src/holdfast/kernel/execution.py",
        "if type(ledger.status) is not Blocked or ledger.is_satisfied():",
        "if type(ledger.status) is not Blocked:",
        (SAGAS,),
    ),
    Mutant(
        "a-success-counts-where-a-task-awaits-it",
        "src/holdfast/programs/function/program.py",
        "if self.compensations.asked:",
        "if self.compensations.asked and promise_id in loop.futures:",
        (SAGAS,),
    ),
    Mutant(
        "a-call-under-way-is-not-awaited",
        "src/holdfast/programs/function/program.py",
        "return (*self.compensations.asked, *(sorted(self.children) if fails else ()))",
        "return ()",
        (SAGAS,),
    ),
    Mutant(
        "what-was-given-up-stands",
        "src/holdfast/programs/function/compensation.py",
        "(self._surplus if promise in self.given_up else self._done).append(done)",
        "self._done.append(done)",
        (SAGAS,),
    ),
    Mutant(
        "what-was-undone-counts-as-done",
        "src/holdfast/client/runs/recorded_calls.py",
        "calls[undoes].undone = True",
        "calls[undoes].undone = False",
        (SAGAS,),
    ),
    Mutant(
        "compensation-is-left-behind",
        "src/holdfast/programs/function/program.py",
        "carried=self.compensations.carried(self)",
        "carried=None",
        (SAGAS,),
    ),
    Mutant(
        "a-start-without-its-answer-keeps-its-key",
        "src/holdfast/worker/advancer.py",
        "            elif not isinstance(answer, p.Exists | p.Retired):  #",
        "            elif isinstance(answer, p.Exists | p.Retired):  #",
        (Judge("a start without its answer", ("tests/unit/worker/test_same_key.py", "-k", "without_its_answer")),),
    ),
    Mutant(
        "a-failed-call-hides-another-write",
        "src/holdfast/gate/call.py",
        "own = self.proposal.key in self.failed_keys or (",
        "own = bool(self.failed_keys) or (",
        (CALLS, Judge("seed 101720", seeds=(101720, 1))),
    ),
    Mutant(
        "a-success-becomes-unknown",
        "src/holdfast/gate/run_calls.py",
        "        if before is None or _is_unknown(before):\n",
        "        if True:\n",
        (CALLS,),
    ),
    Mutant(
        "an-ended-run-keeps-its-key",
        "src/holdfast/worker/gate/openings.py",
        "if not rows or rows[0].standing in p.ENDED or receipt.abandoned:",
        "if not rows:",
        (Judge("seed 297", seeds=(297, 1)),),
    ),
    Mutant(
        "a-call-given-up-keeps-its-receipt-open",
        "src/holdfast/worker/gate/releaser.py",
        "return [Abandon(call.promise, ACTION, None) for call in sorted(left",
        "return [Abandon(call.promise, ACTION, None) for call in sorted(left[:0]",
        (Judge("seed 81", seeds=(81, 1)),),
    ),
    Mutant(
        "a-receipt-names-what-newer-code-proposes",
        "src/holdfast/worker/gate/entries.py",
        "    if is_of(receipt, call.promise):\n        proposal = receipt.proposal\n",
        "",
        (Judge("seed 262", seeds=(262, 1)),),
    ),
    Mutant(
        "what-a-probe-found-of-anothers-act-is-not-held",
        "src/holdfast/worker/gate/acts.py",
        "if isinstance(answer, p.Closed) and is_of(call.receipt, call.promise):",
        "if isinstance(answer, p.Closed):",
        (Judge("found out", ("tests/unit/worker/test_undoing_once.py", "-k", "found_out")),),
    ),
    Mutant(
        "a-checkpoint-of-what-was-cut-off-is-used",
        "src/holdfast/worker/executions.py",
        "if (row.version + len(tail), reached) != (held.version, held.head):",
        "if reached is None:",
        (Judge("checkpoints and repairs", ("tests/laws/test_checkpoint_repairs.py",)),),
    ),
    Mutant(
        "a-form-outlives-its-wait",
        "src/holdfast/worker/gate/asker.py",
        'if call is None or call.task.status != "requested":\n            return []',
        'if call is None or call.task.status == "requested":\n            return []',
        (SAGAS,),
    ),
    Mutant(
        "a-timer-overtakes-an-answer",
        "src/holdfast/worker/advancer.py",
        "if held.gate is not None and self._governor.reads_answers(held, held.gate):",
        "if held.gate is not None and self._governor is None:",
        (FORMS,),
    ),
    Mutant(
        "a-join-publishes-what-losers-wrote",
        "src/holdfast/programs/definition/interpreter/forks.py",
        "engine.open_line(visit, branch.name, branch.do, scope.branch())",
        "engine.open_line(visit, branch.name, branch.do, scope)",
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "what-was-given-up-is-waited-for",
        "src/holdfast/programs/definition/interpreter/interpreter.py",
        "        self.waiting.pop(promise, None)\n        self.scribe.abandon(promise)",
        "        self.scribe.abandon(promise)",
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "deeds-are-undone-oldest-first",
        "src/holdfast/programs/definition/interpreter/deeds.py",
        "deed = visit.undoing.pop()",
        "deed = visit.undoing.pop(0)",
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "a-deadline-outlives-its-node",
        "src/holdfast/programs/definition/interpreter/interpreter.py",
        "        if visit.deadline is not None:\n            self.abandon(visit.deadline)",
        "        if visit.deadline is not None and visit.expired:\n            self.abandon(visit.deadline)",
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "a-checkpoint-forgets-signals-put-aside",
        "src/holdfast/programs/definition/interpreter/snapshot.py",
        '"aside": {name: values for name, values in engine.aside.items() if values},',
        '"aside": {},',
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "a-skipped-node-blocks-its-dependants",
        "src/holdfast/programs/definition/interpreter/graphs.py",
        '_MET: Final = frozenset({"success", "skipped"})',
        '_MET: Final = frozenset({"success"})',
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "a-lost-call-is-not-awaited",
        "src/holdfast/programs/definition/interpreter/closer.py",
        "if awaited and promise not in engine.fresh:",
        "if awaited and promise in engine.fresh:",
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "a-stopped-call-is-tried-again",
        "src/holdfast/kernel/attempts.py",
        "if attempt >= policy.max_attempts or pending.stopped:",
        "if attempt >= policy.max_attempts:",
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "a-checkpoint-forgets-that-a-call-is-stopped",
        "src/holdfast/kernel/checkpoint.py",
        "call.last_retry_at, call.stopped) for call in calls",
        "call.last_retry_at, False) for call in calls",
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "losers-are-not-undone",
        "src/holdfast/programs/definition/interpreter/closer.py",
        "visit.lost.extend(visit.lines)",
        "visit.lost.extend([])",
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "an-undo-that-fails-for-a-loser-is-forgotten",
        "src/holdfast/programs/definition/interpreter/interpreter.py",
        'if type(outcome) is Dropped and "not_undone" in visit.memo:',
        'if type(outcome) is Succeeded and "not_undone" in visit.memo:',
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "a-cancelled-child-is-not-awaited",
        "src/holdfast/programs/definition/interpreter/children.py",
        '"""A cancelled child undoes what it did. Its node is not gone before that has ended."""\n        return True',
        '"""A cancelled child undoes what it did. Its node is not gone before that has ended."""\n        return False',
        (INTERPRETER, DEFINITIONS),
    ),
    Mutant(
        "a-stopped-call-keeps-its-approval-open",
        "src/holdfast/worker/gate/governor.py",
        'if call.state == "waiting" and not call.may_have_begun:',
        'if call.state == "waiting" and call.may_have_begun:',
        (STOPPED,),
    ),
    Mutant(
        "a-cancellation-never-overtakes",
        "src/holdfast/kernel/execution.py",
        "going = going and not (cancel_first and cancel is not None and not self._cancel_told)",
        "going = going and not (cancel_first and cancel is None)",
        (CANCELS_FIRST,),
    ),
    Mutant(
        "a-failing-turn-hears-no-cancellation",
        "src/holdfast/worker/faults.py",
        "if not held.cancel_first and held.pause is None and held.must_hear_cancel():",
        "if held.cancel_first and held.pause is None and held.must_hear_cancel():",
        (PARKED,),
    ),
    Mutant(
        "a-time-out-runs-on-while-people-are-asked",
        "src/holdfast/gate/call.py",
        "return total, bool(self.open_tasks)",
        "return total, False",
        (CLOCKS,),
    ),
    Mutant(
        "a-time-out-forgets-how-long-it-stood-still",
        "src/holdfast/gate/call.py",
        "total += max(0, ended - max(began, until))",
        "total += 0",
        (CLOCKS,),
    ),
    Mutant(
        "a-fork-has-its-own-id-in-its-past",
        "src/holdfast/client/runs/repair.py",
        "if until > (parts[-1].until if parts else 0):",
        "if until < 0:",
        (FORKED,),
    ),
    Mutant(
        "an-act-outlives-a-demotion",
        "src/holdfast/client/people/bound_client.py",
        "return p.Operate(act.note, (*conditions, *rest))",
        "return p.Operate(act.note, (*rest,))",
        (TENANT_SEEDS,),
    ),
    Mutant(
        "a-webhook-keeps-its-user",
        "src/holdfast/client/webhooks/app_webhooks.py",
        "if user is not None or after.does_more_than(webhook):",
        "if user is not None:",
        (NAMES,),
    ),
    Mutant(
        "a-schedule-keeps-its-owner",
        "src/holdfast/client/schedules/app_schedules.py",
        "if takes and after != schedule:",
        "if takes and after == schedule:",
        (NAMES,),
    ),
    Mutant(
        "what-is-done-later-is-not-judged",
        "src/holdfast/client/people/permission.py",
        "await app.binding.check_later(judged.caller, name, thing)",
        "pass",
        (NAMES,),
    ),
    Mutant(
        "a-token-outlives-its-maker",
        "src/holdfast/client/people/binding.py",
        "(problem := tokens.problem_of(token, now) or makers.problem)",
        "(problem := tokens.problem_of(token, now))",
        (NAMES,),
    ),
    Mutant(
        "an-act-outlives-the-token-of-its-maker",
        "src/holdfast/client/people/binding.py",
        "return (user, token, *dict.fromkeys(makers))",
        "return (user, token)",
        (NAMES,),
    ),
    Mutant(
        "who-resumed-a-run-approves-its-acts",
        "src/holdfast/client/governance/parties.py",
        '_ACTS: Final = {"resume": "resumed", ',
        "_ACTS: Final = {",
        (NAMES,),
    ),
    Mutant(
        "a-schedule-outlives-its-owners-level",
        "src/holdfast/client/schedules/launcher.py",
        'if found.level < (needed := LEAST["runs.start"]):',
        "if found.level < (needed := 0):",
        (TENANTS,),
    ),
    Mutant(
        "caps-of-tenants-are-not-counted",
        "src/holdfast/store/memory/admission.py",
        "for row in tables.caps.values() if row.kind == CAP]",
        "for row in tables.caps.values() if row.kind != CAP]",
        (TRACES, TENANTS),
    ),
    Mutant(
        "a-schedule-is-made-of-a-template-that-was-paused-meanwhile",
        "src/holdfast/client/schedules/app_schedules.py",
        "beside=await offered(app, key.tenant, schedule)",
        "beside=()",
        (TENANT_SEEDS,),
    ),
    Mutant(
        "an-instance-is-started-of-a-template-that-was-paused-meanwhile",
        "src/holdfast/client/templates/instance_starter.py",
        "(*app.conditions(), start.expect, start.change, *beside)",
        "(*app.conditions(), start.change, *beside)",
        (RACES,),
    ),
    Mutant(
        "authors-need-no-level-of-their-own",
        "src/holdfast/people/permissions.py",
        '"templates.change": AUTHOR,',
        '"templates.change": EXECUTE,',
        (TRACES,),
    ),
    Mutant(
        "what-is-of-another-tenant-is-found",
        "src/holdfast/client/people/bound_client.py",
        "return self._binding.tenant if tenant is None else tenant",
        "return self._binding.tenant",
        (TRACES,),
    ),
    Mutant(
        "a-template-of-events-is-scheduled",
        "src/holdfast/client/schedules/targets.py",
        'if read_template(row).trigger == "event":',
        'if read_template(row).trigger == "never":',
        (TRACES,),
    ),
    Mutant(
        "failed-attempts-are-not-counted",
        "src/holdfast/templates/story.py",
        "standing.retries += 1",
        "standing.retries += 0",
        (TRACES,),
    ),
    Mutant(
        "a-cancelled-instance-goes-on-in-its-story",
        "src/holdfast/templates/story.py",
        "return entries[:index]",
        "return entries",
        (TRACES,),
    ),
    Mutant(
        "an-archived-template-can-be-archived-again",
        "src/holdfast/templates/template.py",
        '    ("active", "archive"): "archived",',
        '    ("active", "archive"): "archived",\n    ("archived", "archive"): "archived",',
        (TRACES,),
    ),
    Mutant(
        "an-act-is-undone-though-others-rely-on-it",
        "src/holdfast/store/holding.py",
        'return HeldBy(others[0].caller.run, others[0].state == "kept") if others else None',
        "return None",
        (ACTS,),
    ),
    Mutant(
        "an-act-is-taken-back-as-often-as-asked",
        "src/holdfast/store/memory/holding.py",
        """    if taking is not None or row.reversed_by is not None:
        return p.Taken(row), False
""",
        "",
        (ACTS,),
    ),
    Mutant(
        "a-reversal-heeds-no-undo",
        "src/holdfast/store/memory/holding.py",
        "if row.reversed_by is not None or (taking is not None and taking[0] != receipt.id):",
        "if False:",
        (ACTS,),
    ),
    Mutant(
        "an-act-is-reused-while-it-is-undone",
        "src/holdfast/store/memory/holding.py",
        "return None if is_taken and not change.inherited else row",
        "return row",
        (ACTS,),
    ),
    Mutant(
        "a-retry-does-not-hold-what-it-relies-on",
        "src/holdfast/client/runs/retries.py",
        "[renew, *holds]",
        "[renew]",
        ("tests/unit/worker/test_undoing_once.py",),
    ),
    Mutant(
        "the-error-of-a-run-that-could-not-undo-all-is-its-own",
        "src/holdfast/client/runs/recorded_calls.py",
        "return sorted(same or noted)",
        "return sorted(same)",
        ("tests/unit/client/test_retries.py",),
    ),
    Mutant(
        "a-taking-has-no-end",
        "src/holdfast/store/memory/holding.py",
        "    del tables.takings[place]\n    if change.done",
        "    if change.done",
        (ACTS,),
    ),
    Mutant(
        "what-is-reused-is-not-held",
        "src/holdfast/worker/gate/openings.py",
        "self._committer.submit(hold, partial(self._is_held, held, call, found))",
        "self._is_held(held, call, found, p.Holding())",
        (ACTS,),
    ),
    Mutant(
        "a-round-never-ends",
        "src/holdfast/worker/gate/openings.py",
        "if found.reversed_by is not None and not call.effect.key_once:",
        "if False:",
        (ACTS,),
    ),
    Mutant(
        "a-receipt-is-looked-for-before-it-is-closed",
        "src/holdfast/worker/gate/undoings.py",
        "            undo = undos.add(request)\n",
        "            undo = undos.add(request)\n            self._begin(held, undos.asked())\n",
        (ACTS,),
    ),
    Mutant(
        "a-fork-holds-nothing",
        "src/holdfast/client/runs/inherited_acts.py",
        "if receipt is not None:",
        "if False:",
        (ACTS,),
    ),
    Mutant(
        "what-is-declared-done-is-not-kept",
        "src/holdfast/worker/gate/undoings.py",
        "if turn.kept:",
        "if False:",
        (ACTS,),
    ),
    Mutant(
        "a-run-undoes-before-its-children-have-ended",
        "src/holdfast/programs/function/program.py",
        "return (*self.compensations.asked, *(sorted(self.children) if fails else ()))",
        "return (*self.compensations.asked,)",
        (TREES,),
    ),
    Mutant(
        "a-child-that-is-given-up-is-not-cancelled",
        "src/holdfast/runs/kinds/child.py",
        'return Errand(Deliver(child, messages.cancel("its parent no longer waits for it", now), unpauses=True))',
        "return None",
        (TREES,),
    ),
    Mutant(
        "what-holds-a-child-is-not-explained",
        "src/holdfast/client/runs/explanation.py",
        "for wait in waits if wait.run] if depth else []",
        "for wait in waits if wait.run] if depth > DEEPEST else []",
        (TREES,),
    ),
    Mutant(
        "what-was-done-first-is-undone-first",
        "src/holdfast/programs/function/compensation.py",
        "return done.pop()",
        "return done.pop(0)",
        (TREES,),
    ),
    Mutant(
        "a-second-cancellation-holds-back-what-is-settled",
        "src/holdfast/kernel/execution.py",
        "cancel is not None and not self._cancel_told)",
        "cancel is not None)",
        (CANCELS_FIRST,),
    ),
    Mutant(
        "a-stopped-call-is-not-looked-up",
        "src/holdfast/worker/gate/governor.py",
        "        if call.stale:\n",
        "        if call.stale and not request.stopped:\n",
        (PARKED,),
    ),
)
