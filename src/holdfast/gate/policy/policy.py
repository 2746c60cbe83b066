"""Judges proposed actions by a policy: rules in CEL of which the first that holds decides.

It fails closed. Without a policy, or where a rule cannot be evaluated, gives neither true nor false or takes too long,
the action is denied, and the ruling says why. A policy means its rules in order, one by one. Evaluating them together
and remembering rulings are only faster ways to the same ruling. Rules that may be slow are evaluated in another
process, which is ended where they take too long.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from holdfast.errors import InvalidPolicy
from holdfast.expressions.engine import QUOTING, CannotEvaluate, CompiledExpression, InvalidExpression
from holdfast.gate.caps import Caps
from holdfast.gate.policy.expressions import RuleExpression, program_of
from holdfast.gate.policy.facts import Sheet, Values, nested, value_of
from holdfast.gate.policy.file import NeedsApproval, PolicyFile, Tier, read, seconds_of, text_of
from holdfast.gate.policy.process import CutOff, PolicyProcess
from holdfast.gate.policy.weight import is_quick, load_of, weigh
from holdfast.gate.proposals import Proposal, RunFacts
from holdfast.journal.quotes import without
from holdfast.store.admission import Limits, WriteLimits

RuleEffect = Literal["allow", "deny", "needs_approval"]

SLOWEST_NANOSECONDS: Final = 50_000_000
REMEMBERED: Final = 4096
TOGETHER: Final = 16
"""How many rules are evaluated as one expression: each is a level, and CEL's parser takes at most 32 levels."""

NO_STARTER: Final = "it depends on who started the run, and that is not known: start the run with actor="
NO_RULE_HOLDS: Final = "no rule holds for it, and what no rule allows is denied"
NOT_IN_FORCE: Final = "no policy is in force: give Holdfast(policy=…) or --policy"


class Approval(msgspec.Struct, frozen=True, gc=False):
    """The approval that a rule wants. Without candidates anyone may give it; without expiry it is open for ever."""

    tier: Tier
    two_person: bool = False
    expires_in_seconds: int | None = None
    candidates: tuple[str, ...] = ()


class Ruling(msgspec.Struct, frozen=True, gc=False):
    """A policy's ruling on an action. ``rule`` decided, or failed; ``policy`` is the hash of the file."""

    effect: RuleEffect
    stage: Literal["allowlist", "policy"]
    rule: str | None
    reason: str
    policy: str
    approval: Approval | None = None


class RuleTrace(msgspec.Struct, frozen=True, gc=False):
    """The result of one rule: whether it holds, or why it cannot be evaluated."""

    rule: str
    effect: RuleEffect
    when: str
    outcome: Literal["matched", "not matched", "error"]
    detail: str = ""


class _Rule(msgspec.Struct, frozen=True):
    name: str
    expression: RuleExpression
    ruling: Ruling

    def holds(self, proposal: Proposal, run: RunFacts, now: int) -> bool | str:
        """Whether it holds, or why it cannot be evaluated.

        It may depend on who started the run, and that may not be known. Then a rule that allows does not hold, and any
        other rule cannot be evaluated: in both cases the action is not allowed by it.
        """
        answer = self._answer(proposal, run, now)
        if run.actor is not None or not isinstance(answer, str) or not self.asks_for_actor:
            return answer
        if isinstance(self._answer(proposal, msgspec.structs.replace(run, actor=""), now), str):
            return answer  # no starter would make it work
        return False if self.ruling.effect == "allow" else NO_STARTER

    @property
    def asks_for_actor(self) -> bool:
        return any(fact.root == "actor" for fact in self.expression.facts)

    def _answer(self, proposal: Proposal, run: RunFacts, now: int) -> bool | str:
        try:
            assert self.expression.program is not None
            answer = self.expression.program.execute(nested(self.expression.facts, proposal, run, now))
        except CannotEvaluate as error:
            return str(error)
        except Exception as error:
            return type(error).__name__
        return answer if isinstance(answer, bool) else f"it gives {answer!r:.60}, which is neither true nor false"


class Policy:
    """A policy. It may be shared between threads, and never changes: a changed file is a new policy."""

    def __init__(
        self,
        file: PolicyFile,
        expressions: Sequence[RuleExpression] = (),
        *,
        hash: str,
        source: str,
        otherwise: str = NO_RULE_HOLDS,
        text: bytes = b"",
        clock: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self.hash: Final = hash
        self.source: Final = source
        self.limits: Limits | None = file.caps.limits()
        self._caps: Caps = file.caps
        self._listed = None if isinstance(file.allowlist, msgspec.UnsetType) else _Allowlist(file.allowlist)
        self._otherwise = Ruling("deny", "policy", None, otherwise, hash)
        self._rules = [
            _Rule(rule.name, expression, _ruling(rule, hash))
            for rule, expression in zip(file.rules, expressions, strict=True)
        ]
        self._rulings = [*(rule.ruling for rule in self._rules), self._otherwise]  # the last is rule -1
        self._sheet = Sheet({fact for rule in self._rules for fact in rule.expression.facts})
        self._together = _together([rule.expression.flat for rule in self._rules])
        self._remembered: dict[Values, Ruling] = {}
        self._writes: dict[str, WriteLimits] = {}
        self._clock = clock
        self._loads = [load_of(rule.expression.text, rule.expression.facts) for rule in self._rules]
        self._facts = frozenset(fact for load in self._loads for fact in load.facts)
        self._process = PolicyProcess(text, source)

    def __repr__(self) -> str:
        return f"<Policy {self.source} {self.hash[:19]}: {len(self._rules)} rules>"

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules' names, in order."""
        return tuple(rule.name for rule in self._rules)

    def write_limits(self, tenant: str) -> WriteLimits:
        """How many writing actions the runs of a tenant may take."""
        if tenant not in self._writes:
            self._writes[tenant] = self._caps.write_limits(tenant)
        return self._writes[tenant]

    def max_writes(self, tenant: str, workflow: str) -> int | None:
        """How many writing actions a run of this workflow may take; None is no limit."""
        return self.write_limits(tenant).of(workflow)

    def is_quick(self, proposal: Proposal, run: RunFacts) -> bool:
        """Whether the decision on this action is sure to take less than 50 ms. If not, decide in another thread."""
        if self._listed is not None and not self._listed.allows(proposal):
            return True
        sheet = self._sheet
        if sheet.lasting:
            key = sheet.key(sheet.simple(proposal, run), sheet.entries(proposal, run))
            if key is not None and key in self._remembered:
                return True
        return self._is_light(proposal, run)

    def _is_light(self, proposal: Proposal, run: RunFacts) -> bool:
        weights = {fact: weigh(value_of(fact, proposal, run)) for fact in self._facts}
        return is_quick(self._loads, weights)

    def decide(self, proposal: Proposal, run: RunFacts, now: int) -> Ruling:
        """Judge an action at ``now``, in microseconds since 1970. It never raises: after an error the action is denied.

        Where it may be slow it waits for another process, at most a quarter of a second of its processor time.
        """
        try:
            if self._listed is not None and not self._listed.allows(proposal):
                return self._unlisted(proposal)
            sheet = self._sheet
            simple = sheet.simple(proposal, run)
            entries = sheet.entries(proposal, run)
            key = sheet.key(simple, entries) if sheet.lasting else None
            ruling = None if key is None else self._remembered.get(key)
            if ruling is not None:
                return ruling
            if not self._is_light(proposal, run):
                return self._decided_in_process(proposal, run, now)
            ruling, lasting = self._evaluated(simple, entries, proposal, run, now)
            if lasting and key is not None:
                self._remember(key, ruling)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            return self._failed(None, f"the policy cannot be evaluated: {type(error).__name__}")
        return ruling

    def steps(self, proposal: Proposal, run: RunFacts, now: int) -> Iterator[RuleTrace]:
        """The result of each rule by itself, in order."""
        light = self._is_light(proposal, run)
        for number, rule in enumerate(self._rules):
            answer = rule.holds(proposal, run, now) if light else self._holds_in_process(number, proposal, run, now)
            about = rule.name, rule.ruling.effect, rule.expression.text
            if isinstance(answer, str):
                yield RuleTrace(*about, "error", answer)
            else:
                yield RuleTrace(*about, "matched" if answer else "not matched")

    def _remember(self, key: Values, ruling: Ruling) -> None:
        if len(self._remembered) >= REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = ruling

    def _evaluated(
        self, simple: Values, entries: Values, proposal: Proposal, run: RunFacts, now: int
    ) -> tuple[Ruling, bool]:
        """The ruling, and whether the same facts will give it again."""
        if self._together is None:
            return self._one_by_one(proposal, run, now)
        clock = self._clock
        began = clock()
        try:
            variables = self._sheet.variables(simple, entries, proposal, run, now)
            bound = self._together[0].bind(variables) if self._together else None
            index = -1
            for program in self._together:
                index = program.execute(bound)
                if index >= 0:
                    break
        except Exception:
            # A rule cannot be evaluated. One by one shows which rule, and whether another rule decides before it.
            return self._one_by_one(proposal, run, now)
        if clock() - began > SLOWEST_NANOSECONDS:
            # The rules may be slow, or the thread was busy otherwise. Only rules that are slow again are denied.
            return self._one_by_one(proposal, run, now)
        return self._rulings[index], True

    def _decided_in_process(self, proposal: Proposal, run: RunFacts, now: int) -> Ruling:
        try:
            number, failure = self._process.ask(_question(None, proposal, run, now))
        except CutOff as cut:
            return self._failed(cut.doing, f"the policy took too long: rule {cut.doing!r} was cut off")
        return self._rulings[number] if failure is None else self._failed(*failure)

    def _holds_in_process(self, number: int, proposal: Proposal, run: RunFacts, now: int) -> bool | str:
        try:
            answer: bool | str = self._process.ask(_question(number, proposal, run, now))
        except CutOff:
            return "it took too long, and was cut off"
        return answer

    def answer(self, question: Any, begun: Callable[[str], None]) -> Any:
        """Answer a question of another process: which rule decides, or which rule failed and why. A question about one
        rule is whether it holds. ``begun`` is called with the name of each rule before the rule is evaluated."""
        number, proposed, facts, now = question
        proposal, run = Proposal(*proposed), RunFacts(*facts)
        if number is not None:
            return self._rules[number].holds(proposal, run, now)
        ruling, _ = self._one_by_one(proposal, run, now, begun)
        if ruling in self._rulings:
            return self._rulings.index(ruling), None
        return -1, (ruling.rule, ruling.reason)

    def _one_by_one(
        self, proposal: Proposal, run: RunFacts, now: int, begun: Callable[[str], None] = lambda _: None
    ) -> tuple[Ruling, bool]:
        began = self._clock()
        for rule in self._rules:
            begun(rule.name)
            answer = rule.holds(proposal, run, now)
            spent = self._clock() - began
            if spent > SLOWEST_NANOSECONDS:
                limit = f"the limit is {SLOWEST_NANOSECONDS // 1_000_000} ms"
                why = f"{spent // 1_000_000} ms up to rule {rule.name!r}, and {limit}"
                return self._failed(rule.name, f"the policy took too long: {why}"), False
            if isinstance(answer, str):
                # CEL quotes values in its errors. The reason is recorded in the audit, which must not have values.
                why = without(answer.partition(QUOTING)[0], proposal.fields.values())
                return self._failed(rule.name, f"rule {rule.name!r} cannot be evaluated: {why}"), True
            if answer:
                return rule.ruling, True
        return self._otherwise, True

    def _failed(self, rule: str | None, reason: str) -> Ruling:
        return Ruling("deny", "policy", rule, reason, self.hash)

    def _unlisted(self, proposal: Proposal) -> Ruling:
        reason = f"{proposal.connector}/{proposal.operation} is not on the allowlist"
        return Ruling("deny", "allowlist", None, reason, self.hash)


class _Allowlist:
    """The actions that may be done at all. Connector and operation are matched separately."""

    def __init__(self, patterns: Sequence[str]) -> None:
        parts = [pattern.split("/", 1) for pattern in patterns]
        self._patterns = [tuple(re.compile(fnmatch.translate(part)) for part in pair) for pair in parts]
        self._known: dict[tuple[str, str], bool] = {}

    def allows(self, proposal: Proposal) -> bool:
        key = (proposal.connector, proposal.operation)
        known = self._known.get(key)
        if known is None:
            known = any(all(map(re.Pattern.match, pair, key)) for pair in self._patterns)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = known
        return known


def parse(text: bytes | str, source: str, *, clock: Callable[[], int] = time.thread_time_ns) -> Policy:
    """A policy from a file's content. Raises InvalidPolicy with every problem, each with its line and column."""
    data = text.encode() if isinstance(text, str) else text
    checked = read(text_of(data, source), source)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return Policy(checked.file, checked.expressions, hash=digest, source=source, text=data, clock=clock)


def load(path: str | Path) -> Policy:
    """A policy from a file. Raises InvalidPolicy where the file cannot be read or is wrong."""
    return parse(content(path), str(path))


def content(path: str | Path) -> bytes:
    """A file's bytes. Raises InvalidPolicy."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidPolicy(str(path), [(0, 0, f"the file cannot be read: {error.strerror or error}")]) from error


def _ruling(rule: Any, hash: str) -> Ruling:
    """The ruling of a rule that holds."""
    effect: RuleEffect = rule.__struct_config__.tag
    if not isinstance(rule, NeedsApproval):
        verb = "allows" if effect == "allow" else "denies"
        return Ruling(effect, "policy", rule.name, f"rule {rule.name!r} {verb} it", hash)
    expires = None if isinstance(rule.expires_in, msgspec.UnsetType) else seconds_of(rule.expires_in)
    candidates = () if isinstance(rule.candidates, msgspec.UnsetType) else tuple(rule.candidates)
    approval = Approval(rule.tier, rule.two_person, expires, candidates)
    who = "two people" if rule.two_person else "a person"
    reason = f"rule {rule.name!r} wants {who} to approve it, tier {rule.tier}"
    return Ruling(effect, "policy", rule.name, reason, hash, approval)


def _together(flats: Sequence[str]) -> list[CompiledExpression] | None:
    """Programs that give the number of the first rule that holds, or -1. None where CEL cannot compile them so."""

    def compile(first: int, last: int) -> list[CompiledExpression]:
        chain = "".join(f"({flats[number]}) ? {number} : " for number in range(first, last))
        try:
            return [program_of(f"{chain}-1")]
        except InvalidExpression:
            if last - first <= 1:
                raise
            middle = (first + last) // 2
            return compile(first, middle) + compile(middle, last)

    try:
        parts = [compile(first, min(first + TOGETHER, len(flats))) for first in range(0, len(flats), TOGETHER)]
    except InvalidExpression:
        return None
    return [program for programs in parts for program in programs]


def _question(number: int | None, proposal: Proposal, run: RunFacts, now: int) -> list[Any]:
    """The question for the other process, as plain data, without the parts that no rule can use."""
    proposed = msgspec.structs.replace(proposal, fields=dict(proposal.fields), request=b"")
    facts = msgspec.structs.replace(run, attributes=dict(run.attributes))
    return [number, list(msgspec.structs.astuple(proposed)), list(msgspec.structs.astuple(facts)), now]


NO_POLICY: Final = Policy(PolicyFile(version=1, rules=[]), hash="none", source="nowhere", otherwise=NOT_IN_FORCE)
"""Denies everything."""
