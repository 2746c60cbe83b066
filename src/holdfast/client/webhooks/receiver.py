"""The receiver of deliveries: who sent it is proved, then what the webhook says is done, once.

What a delivery led to is remembered in the commit that did it: the event, or an item beside the start or the signal. So
a delivery that comes again, however often and through whichever server, is answered with the same. A delivery that
failed has done nothing, and may come again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from holdfast.client.operators import operator_note
from holdfast.client.people.permission import CallerChanged, operating
from holdfast.client.runs.run_ids import triggered_run_id
from holdfast.client.templates.emitter import Emitter
from holdfast.client.templates.instance_starter import InstanceStarter
from holdfast.client.views.times import moment
from holdfast.client.views.webhooks import WebhookOutcome
from holdfast.errors import (
    InvalidRequest,
    KeyLocked,
    RunEnded,
    RunNotFound,
    SecretMissing,
    TemplateNotFound,
    WebhookRefused,
)
from holdfast.journal.attribution import given_by
from holdfast.programs.function.values import encode
from holdfast.runs import messages
from holdfast.runs.birth import ID_LIMIT, Trigger
from holdfast.runs.signals import keyed
from holdfast.store import protocol as p
from holdfast.templates.template import TEMPLATE
from holdfast.webhooks import webhook as w
from holdfast.webhooks.named_secrets import hook_secret
from holdfast.webhooks.signatures import new_secret, proved_id
from holdfast.webhooks.vault import opened, secret_key

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

log = logging.getLogger("holdfast.webhooks")

REFUSED: Final = "this delivery is not accepted here."
"""All that a sender who proves nothing is told: whether there is such a webhook is not their business."""

_NOBODY: Final = (new_secret("standard"),)


class Receiver:
    """Takes deliveries for one engine, which acts for nobody."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def receive(
        self, tenant: str, id: str, headers: Mapping[str, str], body: bytes, admit: Callable[[], None] | None = None
    ) -> WebhookOutcome:
        """See ``Webhooks.receive``."""
        small = {name.lower(): value for name, value in headers.items()}
        while True:
            row = await self._app.store.item(w.webhook_key(tenant, id))
            delivery = await self._proved(tenant, id, row, small, body)
            if row is None or delivery is None:
                log.info(
                    "a delivery to webhook %.100s of tenant %.100s was refused: nothing proves its sender", id, tenant
                )
                raise WebhookRefused(REFUSED)
            if admit is not None:
                admit()
                admit = None  # a webhook that has changed meanwhile is looked at again, and the delivery is the same
            webhook = w.read_webhook(row)
            incoming = w.Incoming(_id_of(webhook, delivery, small), _read(body), small, moment(self._app.clock.now()))
            if not await w.is_for(webhook, incoming):
                return WebhookOutcome(webhook=id, delivery=incoming.id, did="ignored")
            done = await _Reception(self._app, row, webhook, incoming).carry_out()
            if done is not None:
                return done

    async def _proved(
        self, tenant: str, id: str, row: p.ItemRow | None, headers: Mapping[str, str], body: bytes
    ) -> str | None:
        """The proved id of a delivery. A webhook that is not there takes as long as a wrong signature, and one whose
        secret cannot be had proves nothing, either: only the log says why."""
        now = self._app.clock.now() / 1e6
        webhook = None if row is None else w.read_webhook(row)
        if webhook is None or webhook.disabled:
            proved_id("standard", _NOBODY, headers, body, now)
            return None
        try:
            secrets = await self._secrets(tenant, id, webhook)
        except (SecretMissing, KeyLocked) as error:
            log.warning("a delivery to webhook %s of tenant %s cannot be checked: %s", id, tenant, error)
            return None
        return proved_id(webhook.scheme, secrets, headers, body, now, webhook.header)

    async def _secrets(self, tenant: str, id: str, webhook: w.Webhook) -> tuple[str, ...]:
        if webhook.secret_name:
            app = self._app
            return (await hook_secret(app.secrets, app.store, "webhook", tenant, webhook.secret_name),)
        kept = await self._app.store.item(secret_key(tenant, "in", id))
        if kept is None:
            raise SecretMissing(f"webhook {id} has no secret: rotate it")
        return tuple(opened(kept).at(self._app.clock.now()))


class _Reception:
    """One delivery that is carried out in the name of the webhook's user."""

    def __init__(self, app: Holdfast, row: p.ItemRow, webhook: w.Webhook, incoming: w.Incoming) -> None:
        self._client = app.acting_as(webhook.user, tenant=row.tenant)
        self._row = row
        self._webhook = webhook
        self._incoming = incoming
        self._trigger = Trigger(w.WEBHOOK, f"{row.id}:{incoming.id}")
        self._key = p.ItemKey(row.tenant, w.ANSWERED, f"{row.id}~{incoming.id}")

    async def carry_out(self) -> WebhookOutcome | None:
        """Do what the webhook says, as its user, who is judged. None where something has changed: look again."""
        match self._webhook.does:
            case w.EmitEvent() as emit:
                return await self._as_user(lambda: self._emit(emit))
            case w.StartTemplate() as start:
                return await self._as_user(lambda: self._once(lambda: self._start(start)))
            case w.SignalRun() as signal:
                return await self._as_user(lambda: self._once(lambda: self._signal(signal)))

    async def _as_user(self, work: Callable[[], Awaitable[WebhookOutcome | None]]) -> WebhookOutcome | None:
        while True:
            try:
                async with operating(self._client, w.operation_of(self._webhook.does)):
                    return await work()
            except CallerChanged:
                continue  # nothing was committed: the user is judged anew

    async def _once(self, work: Callable[[], Awaitable[WebhookOutcome | None]]) -> WebhookOutcome | None:
        """What was done before, or is done now."""
        row = await self._client.store.item(self._key)
        if row is not None:
            return replace(msgspec.json.decode(row.body, type=WebhookOutcome), repeated=True)
        return await work()

    async def _emit(self, act: w.EmitEvent) -> WebhookOutcome:
        event = await w.text_of(act.event, self._incoming, "event")
        data = await w.value_of(act.data, self._incoming, "data")
        id = self._trigger.ref
        if len(id) > ID_LIMIT:
            id = hashlib.sha256(id.encode()).hexdigest()
        info = await Emitter(self._client).emit(event, data, id, "", self._row.tenant, None, self._trigger)
        return replace(self._outcome("emitted", *info.started), event=event, repeated=info.repeated)

    async def _start(self, act: w.StartTemplate) -> WebhookOutcome | None:
        client, tenant = self._client, self._row.tenant
        id = await w.text_of(act.template, self._incoming, "template")
        template = await client.store.item(p.ItemKey(tenant, TEMPLATE, id))
        if template is None:
            raise TemplateNotFound(f"there is no template {id!r} in tenant {tenant!r}.")
        starter, run = InstanceStarter(client), await triggered_run_id(client.store, tenant, self._trigger, id)
        input = await w.value_of(act.input, self._incoming, "input")
        start = await starter.prepare(template, input, run, self._trigger, "", client.person_of(None))
        outcome = self._outcome("started", run)
        answer = await starter.commit(template, start, None, self._details(), self._beside(outcome))
        if answer == "found":
            return replace(outcome, repeated=True)
        return outcome if answer == "started" else None

    async def _signal(self, act: w.SignalRun) -> WebhookOutcome | None:
        client = self._client
        run, name = [await w.text_of(getattr(act, part), self._incoming, part) for part in ("run", "signal")]
        if act.key:
            name = keyed(name, await w.value_of(act.key, self._incoming, "key"))
        key = p.Key(self._row.tenant, run)
        payload = encode(await w.value_of(act.value, self._incoming, "value"), f"signal {name!r}")
        payload = given_by(payload, client.person_of(None))
        message = messages.signal(name, payload, self._incoming_at, f"webhook:{self._trigger.ref}", None)
        note = operator_note(client, key.tenant, "signal", None, run, "", {"signal": name, **self._details()})
        outcome = self._outcome("signalled", run)
        changes = (*client.conditions(), p.Deliver(key, message), *self._beside(outcome))
        match await client.committer.commit(p.Operate(note, changes)):
            case p.OperatedOn() | p.Repeated():
                client.wake_sealer()
                client.delivered(key)
                return outcome
            case p.Fenced():
                return None
            case p.Gone():
                raise RunEnded(f"run {run} has ended, nothing can reach it.")
            case _:
                raise RunNotFound(f"there is no run {run!r} in tenant {key.tenant!r}.")

    @property
    def _incoming_at(self) -> int:
        return self._client.clock.now()

    def _outcome(self, did: str, *runs: str) -> WebhookOutcome:
        return WebhookOutcome(webhook=self._row.id, delivery=self._incoming.id, did=did, runs=runs)

    def _beside(self, outcome: WebhookOutcome) -> tuple[p.Act, ...]:
        """What is committed with the act: that the webhook is as it was read, and what came of the delivery."""
        body = msgspec.json.encode(outcome)
        now = self._client.clock.now()
        answered = p.ItemRow(*self._key, 1, body, due_at=now + w.REMEMBERED_DAYS * 86400 * 1_000_000, changed_at=now)
        return p.ExpectItem(self._row.key, self._row.version), p.PutItem(answered)

    def _details(self) -> dict[str, str]:
        return {"webhook": self._row.id, "delivery": self._incoming.id}


def _id_of(webhook: w.Webhook, proved: str, headers: Mapping[str, str]) -> str:
    """The delivery's id: what is proved, or what a header says that the webhook's author believes."""
    if not webhook.id_header:
        return proved
    given = headers.get(webhook.id_header.lower(), "").strip()
    if not given or len(given) > ID_LIMIT or not given.isprintable():
        raise InvalidRequest(
            f"the header {webhook.id_header} is 1 to {ID_LIMIT} printable characters: the delivery's id"
        )
    return given


def _read(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidRequest("the body of a delivery is JSON: set that as its content type where it is sent") from None
