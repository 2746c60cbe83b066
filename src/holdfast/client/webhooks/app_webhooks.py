"""``app.webhooks``: addresses at which others tell us something, and what is done then.

A webhook acts in the name of its user, so what is done to it decides in whose name it acts afterwards:

| a bound caller | its user is then | its secret |
|---|---|---|
| makes it | the caller | a new one |
| changes what it does | the caller | a new one, the one before it ends |
| changes its filter, or enables it | the caller | the same; a new one if that is another user than before |
| rotates its secret | the caller | a new one; the one before it counts for the overlap only if the user stays |
| changes its name, or disables it | as before | the same |

A caller of level 6 may name another user in the place of their own. The caller must be permitted to do what the webhook
will do, by their level and by the scope of their token. A client that is not bound to a user changes the
user only if it names one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec.structs import replace

from holdfast.client.items import Change, all_items, change_item, found
from holdfast.client.people.permission import operation, require_later
from holdfast.client.views.webhooks import (
    ChangedWebhook,
    MadeWebhook,
    WebhookInfo,
    WebhookOutcome,
    changed_webhook,
    webhook_info,
)
from holdfast.client.webhooks.receiver import Receiver
from holdfast.client.webhooks.secrets import OVERLAP_SECONDS, check_use, chosen, kept, rotated
from holdfast.errors import InvalidRequest, NameTaken, NotPermitted, UserNotFound, WebhookNotFound
from holdfast.people.names import person
from holdfast.people.permissions import RULE
from holdfast.people.users import user_key
from holdfast.runs.birth import check_new_id, check_text
from holdfast.store import protocol as p
from holdfast.transports.http.headers import checked_name
from holdfast.webhooks import webhook as w
from holdfast.webhooks.signatures import Scheme, new_secret

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_SCHEMES: Final = ("standard", "github", "hmac")


class Webhooks:
    """The webhooks of one engine's tenants."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    @operation("webhooks.change")
    async def create(
        self,
        id: str,
        does: w.WebhookAct,
        *,
        user: str | None = None,
        scheme: Scheme = "standard",
        header: str = "",
        id_header: str = "",
        secret: str | None = None,
        secret_name: str = "",
        filter: str = "",
        name: str = "",
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> MadeWebhook:
        """Make a webhook, which acts in the name of a ``user``; of level 4 at least when it is used. Its secret is
        shown only now: a new one, or the given one. With ``secret_name`` it is a secret of the server, and is not kept.

        ``header`` is where the scheme ``hmac`` has its signature, ``id_header`` where a scheme that signs the body
        alone has an id to believe. Only a caller of level 6 names another user than themself. Raises NameTaken,
        UserNotFound, InvalidRequest, and NotPermitted, also if the caller may not do what the webhook will do.
        """
        app, tenant = self._app, self._app.tenant_of(tenant)
        key = w.webhook_key(tenant, check_new_id(id, "the webhook's id"))
        made = w.Webhook(
            does=_act(does),
            user=await self._principal(id, does, user, None, tenant),
            made_at=app.clock.now(),
            name=check_text(name, "the name"),
            scheme=_scheme(scheme),
            header=_header(header, scheme),
            id_header=_id_header(id_header, scheme),
            secret_name=secret_name,
            filter=check_text(filter, "the filter"),
        )
        w.check_texts(made)
        text = chosen(scheme, secret, secret_name)
        await check_use(app, "webhook", tenant, secret_name)

        async def make(present: p.ItemRow | None) -> Change:
            if present is not None:
                raise NameTaken(f"there is a webhook {id!r} in tenant {tenant!r}: change it, or choose another id.")
            return _change(made, await kept(app, tenant, "in", id, text))

        row = await change_item(app, key, "create_webhook", make, by=by, reason=reason)
        return MadeWebhook(webhook=webhook_info(row), secret=text)

    @operation("webhooks.see")
    async def list(self, *, tenant: str | None = None) -> AsyncIterator[WebhookInfo]:
        """A tenant's webhooks, by id."""
        async for row in all_items(self._app, w.WEBHOOK, tenant=self._app.tenant_of(tenant)):
            yield webhook_info(row)

    @operation("webhooks.see")
    async def show(self, id: str, *, tenant: str | None = None) -> WebhookInfo:
        """One webhook. Raises WebhookNotFound."""
        tenant = self._app.tenant_of(tenant)
        return webhook_info(found(await self._app.store.item(w.webhook_key(tenant, id)), _missing(id, tenant)))

    @operation("webhooks.change")
    async def change(
        self,
        id: str,
        *,
        does: w.WebhookAct | None = None,
        user: str | None = None,
        filter: str | None = None,
        name: str | None = None,
        disabled: bool | None = None,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> ChangedWebhook:
        """Change what is given; the rest stays. A ``disabled`` one refuses everything. Who changes what it does, or
        enables it, becomes its user, and it gets a new secret: see the table above. Raises as ``create`` does, and
        WebhookNotFound."""
        app, tenant = self._app, self._app.tenant_of(tenant)
        given: dict[str, Any] = {"filter": filter, "name": name, "disabled": disabled}
        given["does"] = None if does is None else _act(does)
        changes = {field: value for field, value in given.items() if value is not None}
        text: str | None = None

        async def change(present: p.ItemRow | None) -> Change:
            nonlocal text
            webhook = w.read_webhook(found(present, _missing(id, tenant)))
            after = w.check_texts(replace(webhook, **changes))
            if user is not None or after.does_more_than(webhook):
                after = replace(after, user=await self._principal(id, after.does, user, webhook, tenant))
            keeps_secret = after.does == webhook.does and person(after.user) == person(webhook.user)
            text = None if keeps_secret or webhook.secret_name else new_secret(webhook.scheme)
            return _change(after, () if text is None else await rotated(app, tenant, "in", id, text, 0))

        row = await change_item(app, w.webhook_key(tenant, id), "change_webhook", change, by=by, reason=reason)
        return changed_webhook(row, text)

    @operation("webhooks.change")
    async def rotate(
        self,
        id: str,
        *,
        secret: str | None = None,
        user: str | None = None,
        overlap_seconds: float = OVERLAP_SECONDS,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> MadeWebhook:
        """Give it a new secret, which is shown only now, or the given one. Who rotates it becomes its user; level 6 may
        name another ``user``. The secret before it counts for the overlap, but ends at once if the user changes.
        Raises as ``create`` does, WebhookNotFound, and InvalidRequest where its secret is the server's by name."""
        app, tenant = self._app, self._app.tenant_of(tenant)
        texts: list[str] = []

        async def change(present: p.ItemRow | None) -> Change:
            webhook = w.read_webhook(found(present, _missing(id, tenant)))
            if webhook.secret_name:
                raise InvalidRequest(
                    f"the secret of webhook {id!r} is {webhook.secret_name} of the server: change it there"
                )
            text = chosen(webhook.scheme, secret, "") or new_secret(webhook.scheme)
            texts.append(text)
            after = replace(webhook, user=await self._principal(id, webhook.does, user, webhook, tenant))
            overlap = overlap_seconds if person(after.user) == person(webhook.user) else 0
            return _change(after, await rotated(app, tenant, "in", id, text, overlap))

        row = await change_item(app, w.webhook_key(tenant, id), "rotate_webhook", change, by=by, reason=reason)
        return MadeWebhook(webhook=webhook_info(row), secret=texts[-1])

    @operation("webhooks.receive")
    async def receive(
        self,
        tenant: str,
        id: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        admit: Callable[[], None] | None = None,
    ) -> WebhookOutcome:
        """Take a delivery: check its signature, and do once what the webhook says. For servers: whoever sends it is
        proved by the signature alone. ``admit`` is called once when the sender is proved, before the body is parsed:
        what it raises refuses the delivery. Raises WebhookRefused, NotPermitted if the webhook's user may not do this,
        and what the act itself raises: then nothing was done, and it may be sent again."""
        return await Receiver(self._app).receive(tenant, id, headers, body, admit)

    async def _principal(
        self, id: str, does: w.WebhookAct, user: str | None, before: w.Webhook | None, tenant: str
    ) -> str:
        """In whose name it acts from now on: the named user, else the caller. Raises InvalidRequest, NotPermitted or
        UserNotFound."""
        await require_later(self._app, f"webhook {id}", [w.operation_of(_act(does))])
        caller = self._app.caller
        if user is None and caller is None:
            if before is not None:
                return before.user
            raise InvalidRequest("say in whose name the webhook acts: a user of the tenant, of level 4 or more")
        name = check_text(caller.user if user is None and caller is not None else user, "the user")
        if caller is not None and person(name) != person(caller.user) and caller.level < RULE:
            raise NotPermitted(
                f"you are {caller.user}: only level {RULE} lets a webhook act in another's name. Leave the user out: "
                "then it acts in yours.",
                operation="webhooks.change",
                needed=RULE,
            )
        if await self._app.store.item(user_key(tenant, name)) is None:
            raise UserNotFound(f"there is no user {name!r} in tenant {tenant!r}: look with `holdfast users list`.")
        return name


def _missing(id: str, tenant: str) -> WebhookNotFound:
    return WebhookNotFound(f"there is no webhook {id!r} in tenant {tenant!r}.")


def _change(webhook: w.Webhook, beside: tuple[p.PutItem, ...] = ()) -> Change:
    details = {"user": webhook.user, "scheme": webhook.scheme, "does": msgspec.json.encode(webhook.does).decode()}
    return Change(w.write_webhook(webhook), webhook.status, details=details, beside=beside)


def _act(does: object) -> w.WebhookAct:
    if not isinstance(does, w.WebhookAct):
        raise InvalidRequest(f"a webhook does EmitEvent(…), StartTemplate(…) or SignalRun(…), not {does!r:.60}")
    return does


def _scheme(scheme: str) -> Scheme:
    if scheme not in _SCHEMES:
        raise InvalidRequest(f"the scheme is {', '.join(_SCHEMES)}, not {scheme!r:.60}")
    return cast("Scheme", scheme)


def _header(header: str, scheme: str) -> str:
    if (scheme == "hmac") != bool(header):
        raise InvalidRequest("the scheme hmac, and no other, names the header of its signature")
    return checked_name(header, "the webhook") if header else ""


def _id_header(header: str, scheme: str) -> str:
    if header and scheme == "standard":
        raise InvalidRequest("by Standard Webhooks the id is signed, and has its own header")
    return checked_name(header, "the webhook") if header else ""
