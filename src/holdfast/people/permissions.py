"""Who may do what: the least level of every operation. Nothing else decides that.

| level | may |
|---|---|
| 1 | see what belongs to the tenant, and their own tokens, which they may revoke |
| 2 | answer tasks that are theirs |
| 3 | assign tasks, and see the audit, evidence and users |
| 4 | start, signal, steer and schedule |
| 5 | write templates, definitions, policies, webhooks and manifests of machines; check and import definitions |
| 6 | keep users, tokens, workspaces and keys of the tenant |

An operation is allowed to a caller of its tenant who has its level, and whose token, if there is one, has it in its
scope. What belongs to another tenant is not found, whatever the level: so nobody learns that it exists. What concerns
all tenants is for the operator of the installation, who is bound to none: no level is enough for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.people.caller import Caller

SEE, ANSWER, ASSIGN, EXECUTE, AUTHOR, RULE, OPERATE = range(1, 8)

SELF: Final = "users.see_self"

LEAST: Final[Mapping[str, int]] = {
    "audit.see": ASSIGN,
    "definitions.add": OPERATE,
    "definitions.check": AUTHOR,
    "definitions.import": AUTHOR,
    "definitions.move": EXECUTE,
    "definitions.publish": AUTHOR,
    "definitions.see": SEE,
    "events.emit": EXECUTE,
    "evidence.see": ASSIGN,
    "installation.operate": OPERATE,
    "keys.rotate": RULE,
    "keys.see": SEE,
    "machines.redeliver": EXECUTE,
    "machines.release": EXECUTE,
    "machines.see": SEE,
    "machines.split": AUTHOR,
    "manifests.apply": AUTHOR,
    "manifests.approve": AUTHOR,
    "manifests.propose": AUTHOR,
    "manifests.see": SEE,
    "receipts.reverse": EXECUTE,
    "receipts.see": SEE,
    "runs.cancel": EXECUTE,
    "runs.fork": EXECUTE,
    "runs.pause": EXECUTE,
    "runs.resume": EXECUTE,
    "runs.retry": EXECUTE,
    "runs.see": SEE,
    "runs.signal": EXECUTE,
    "runs.start": EXECUTE,
    "schedules.change": EXECUTE,
    "schedules.see": SEE,
    "subscriptions.change": AUTHOR,
    "subscriptions.see": AUTHOR,
    "tasks.answer": ANSWER,
    "tasks.assign": ASSIGN,
    "tasks.see": SEE,
    "templates.change": AUTHOR,
    "templates.see": SEE,
    "templates.start": EXECUTE,
    "tenants.change": OPERATE,
    "tenants.see": SEE,
    "tokens.change": RULE,
    "tokens.revoke_own": SEE,
    "tokens.see": RULE,
    "tokens.see_own": SEE,
    "users.change": RULE,
    "users.see": ASSIGN,
    SELF: SEE,
    "webhooks.change": AUTHOR,
    "webhooks.receive": OPERATE,
    "webhooks.see": AUTHOR,
    "workers.see": SEE,
    "workspaces.change": RULE,
    "workspaces.see": SEE,
}
"""The operations, by name, and the level that each needs."""


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why an operation is refused. With ``hidden`` what was asked for is another tenant's: it is not found. With
    ``out_of_scope`` the level is enough, and the token is for other operations."""

    operation: str
    needed: int
    hidden: bool = False
    out_of_scope: bool = False


def judge(caller: Caller, operation: str, tenant: str) -> Refusal | None:
    """None where the caller may do this in that tenant."""
    needed = LEAST[operation]
    if caller.tenant != tenant:
        return Refusal(operation, needed, hidden=True)
    if caller.level < needed:
        return Refusal(operation, needed)
    return None if in_scope(operation, caller.scope) else Refusal(operation, needed, out_of_scope=True)


def in_scope(operation: str, scope: tuple[str, ...]) -> bool:
    """Whether a token of that scope is for this operation. No scope means all; ``runs`` means all of ``runs``. Whose
    token it is can be asked with any."""
    return not scope or operation == SELF or operation in scope or operation.partition(".")[0] in scope


def is_scope(name: str) -> bool:
    """Whether it may be in a token's scope: an operation, or the part of its name before the point."""
    return name in LEAST or any(each.partition(".")[0] == name for each in LEAST)
