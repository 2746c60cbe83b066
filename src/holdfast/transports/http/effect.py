"""A recorded HTTP call as an effect: what it proposes to the gate, and what its attempt does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

import cbor2

from holdfast.errors import Undecodable
from holdfast.gate.effects import Arguments, Cost, Intent, Performable
from holdfast.gate.proposals import Proposal, Risk, limited
from holdfast.journal.cbor import DEEPEST, canonical
from holdfast.journal.payload import Failure, Payload
from holdfast.journal.quotes import forms_of, without_forms
from holdfast.journal.secrecy import ACTION, failure_without
from holdfast.transports.http.answer import Answer, result_of
from holdfast.transports.http.call import HttpCall, read


class HttpEffect:
    """One call, told by what is recorded of it. One that cannot be read is the riskiest, and proposes nothing."""

    kind = ACTION
    queue: str | None = None
    concurrency: int | None = None
    timeout: float | None = None  # an attempt minds its own time: it knows whether something was sent
    heartbeat_timeout: float | None = None
    is_async = True
    is_plain = True
    probe: Performable | None = None

    def __init__(self, name: str, input: Payload | None) -> None:
        self.name = name
        self.connector, self.operation, self.writes, self.safe_to_retry = "", "", True, False
        self.key_once = False
        self.not_done: Collection[int] = ()
        self.risk: Risk = "high"
        self.secret_names: Collection[str] = frozenset({"auth"})
        try:
            call = read(input)
        except Undecodable:
            return
        self.connector, self.operation, self.risk = call.connector, call.operation, call.risk
        self.writes, self.safe_to_retry, self.not_done = call.writes, call.safe_to_retry, call.not_done
        if call.auth is None or not call.auth.value:
            self.secret_names = frozenset()

    # -- what the gate wants to know ----------------------------------------------------------------------------------

    def propose(self, input: Payload, name: str) -> Intent:
        call = read(input)
        fields = call.fields()
        request = canonical(fields, DEEPEST - 1)  # a task shows them inside a map of its own
        key = call.key or f"{call.connector}:{call.operation}:{name}:{hashlib.sha256(request).hexdigest()[:12]}"
        proposal = Proposal(
            self.name,
            call.connector,
            call.operation,
            call.target,
            fields,
            request,
            call.writes,
            call.risk,
            limited(key),
        )
        return Intent(proposal, call.members(), ([call, proposal.key], {}))

    def arguments(self, input: Payload) -> Mapping[str, Any]:
        return read(input).members()

    def keyed(self, given: Arguments, key: str) -> Arguments:
        return [given[0][0], key], {}

    def has_key(self, key: str, arguments: Mapping[str, Any], name: str) -> bool:
        return True

    def cost_of(self, result: Payload) -> Cost | None:
        return None

    def scrub(self, failure: Failure, arguments: Mapping[str, Any]) -> Failure:
        return failure_without(failure, _forms(arguments))

    def scrub_text(self, text: str, arguments: Mapping[str, Any]) -> str:
        return without_forms(text, _forms(arguments))

    # -- what the performer wants to know ------------------------------------------------------------------------------

    @property
    def read(self) -> Callable[[Payload], Arguments]:
        return _arguments

    async def function(self, call: HttpCall, key: str | None) -> Answer:
        """Make the call. Raises TransportFailed or SecretMissing."""
        from holdfast.transports.http.sender import send

        return await send(call, key)

    @property
    def write_result(self) -> Callable[[Any], Payload]:
        return _result

    def read_result(self, result: Payload) -> object:
        return cbor2.loads(result.data)


def _arguments(input: Payload) -> Arguments:
    return [read(input), None], {}


def _result(answer: Answer) -> Payload:
    """What the call gives. Where the answer cannot be used, the act was done all the same, and nobody repeats it."""
    return Payload(result_of(answer))


def _forms(arguments: Mapping[str, Any]) -> set[str]:
    """Every form of the value that a request brought along itself."""
    auth = arguments.get("auth")
    return forms_of([auth["value"]]) if isinstance(auth, Mapping) and auth.get("value") else set()
