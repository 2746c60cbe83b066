"""A machine whose effects are carried out by an executor that signs: as a step, on a queue, as an action."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from holdfast import (
    Cell,
    DidNotHappen,
    Err,
    Happened,
    Ok,
    OutcomeUnknown,
    Rejected,
    RetryableError,
    Settled,
    TerminalError,
    action,
    machine,
    step,
)
from holdfast.audit import keys
from holdfast.programs.machine.schemas import schema
from holdfast.store.governance import SigningKey

OWN, SPARE, FOREIGN = (keys.generate(0, None) for _ in range(3))
PUBLIC: Final = keys.to_pem(OWN.public) + keys.to_pem(SPARE.public)

done: list[str] = []


def key_file(folder: Path, key: SigningKey = OWN) -> str:
    """The private half in a file."""
    assert key.private is not None
    file = folder / f"{key.id}.pem"
    file.write_bytes(key.private)
    return str(file)


def _pay(name: str, cents: int) -> str:
    done.append(name)
    if cents < 0:
        raise TerminalError(f"{name} has no money")
    if cents == 0:
        raise RetryableError("the bank is closed")
    return f"{name} paid {cents}"


@step(name="sign.here", executor="bank")
async def here(name: str, cents: int) -> str:
    return _pay(name, cents)


@step(name="sign.queued", executor="bank", queue="bank")
async def queued(name: str, cents: int) -> str:
    return _pay(name, cents)


def looked(name: str, cents: int) -> Happened | DidNotHappen:
    return Happened(f"{name} was seen to pay {cents}")


@action(name="sign.acted", connector="bank", operation="payment.make", idempotency_key="{cents}", executor="bank")
async def acted(name: str, cents: int) -> str:
    return _pay(name, cents)


@action(name="sign.probed", connector="bank", operation="payment.probe", probe=looked, executor="bank")
async def probed(name: str, cents: int) -> str:
    raise OutcomeUnknown("the line went dead")


@action(name="sign.doubted", connector="bank", operation="payment.doubt", executor="bank")
async def doubted(name: str, cents: int) -> str:
    raise OutcomeUnknown("the line went dead")


EFFECTS: Final = {"here": here, "queued": queued, "acted": acted, "probed": probed, "doubted": doubted}


@dataclass
@schema("sign/Due@1")
class Due:
    name: str
    cents: int
    how: str = "here"


@dataclass
@schema("sign/Log@1")
class Log:
    lines: list[Any] = field(default_factory=list)


def _handled(state: Log | None, event: Any, cell: Cell) -> Log:
    log = state or Log()
    match event:
        case Due(cents=cents, how=how):
            cell.do(EFFECTS[how], cell.key, cents)
            return log
        case Settled(outcome=Ok(value), executor=executor):
            line: list[Any] = [value, executor]
        case Settled(outcome=Err(failure), executor=executor):
            line = [str(failure), failure.details, executor]
        case Rejected(reason=reason, effect=effect):
            line = ["rejected", effect, reason]
        case _:
            line = []
    return replace(log, lines=[*log.lines, line])


@machine(key="name", effects=[*EFFECTS.values()], executors={"bank": PUBLIC}, name="sign.account", lanes=2)
def account(state: Log | None, event: Due | Settled | Rejected, cell: Cell) -> Log | None:
    return _handled(state, event, cell)


@machine(key="name", effects=[*EFFECTS.values()], executors={"bank": PUBLIC}, name="sign.strict", lanes=2)
def strict(state: Log | None, event: Due | Settled, cell: Cell) -> Log | None:
    return _handled(state, event, cell)
