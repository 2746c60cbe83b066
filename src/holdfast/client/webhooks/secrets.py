"""The secret of a webhook or a subscription: made, given or named, kept beside its item, and changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.errors import InvalidRequest
from holdfast.store import protocol as p
from holdfast.transports.secrets import NAME
from holdfast.webhooks.named_secrets import HookUse, used_otherwise
from holdfast.webhooks.signatures import Scheme, check_secret, new_secret
from holdfast.webhooks.vault import Direction, KeptSecrets, opened, sealed, secret_key

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

OVERLAP_SECONDS: Final = 86_400.0
LONGEST_OVERLAP: Final = 30 * 86_400.0


def chosen(scheme: Scheme, secret: str | None, secret_name: object) -> str | None:
    """The secret that is kept: the given one, else a new one; None where it has a name. Raises InvalidRequest."""
    if secret_name:
        if secret is not None:
            raise InvalidRequest("give a secret or the name of one, not both")
        if not isinstance(secret_name, str) or not NAME.fullmatch(secret_name):
            raise InvalidRequest(f"the name of a secret is letters, digits, _, . and -, not {secret_name!r:.60}")
        return None
    return new_secret(scheme) if secret is None else check_secret(secret, scheme)


async def check_use(app: Holdfast, use: HookUse, tenant: str, secret_name: str) -> None:
    """Raises InvalidRequest where a name that is to check deliveries signs some, or the reverse."""
    if secret_name and (other := await used_otherwise(app.store, use, tenant, secret_name)):
        raise InvalidRequest(f"the {other} has the secret {secret_name}, and no name serves both: give another name")


async def kept(app: Holdfast, tenant: str, direction: Direction, id: str, secret: str | None) -> tuple[p.PutItem, ...]:
    """The change that keeps the secret, beside that of its owner; none where there is none."""
    if secret is None:
        return ()
    return await _put(app, secret_key(tenant, direction, id), KeptSecrets(secret))


async def rotated(
    app: Holdfast, tenant: str, direction: Direction, id: str, secret: str, overlap_seconds: float
) -> tuple[p.PutItem, ...]:
    """The change that keeps a new secret, and the one before it for a while. Raises InvalidRequest, KeyLocked."""
    if isinstance(overlap_seconds, bool) or not 0 <= overlap_seconds <= LONGEST_OVERLAP:
        raise InvalidRequest(f"the overlap is 0 to {LONGEST_OVERLAP:g} seconds, not {overlap_seconds!r:.60}")
    key = secret_key(tenant, direction, id)
    row = await app.store.item(key)
    before = "" if row is None or not overlap_seconds else opened(row).present
    until = app.clock.now() + round(overlap_seconds * 1e6)
    return await _put(app, key, KeptSecrets(secret, before, until if before else 0))


async def _put(app: Holdfast, key: p.ItemKey, secrets: KeptSecrets) -> tuple[p.PutItem, ...]:
    present = await app.store.item(key)
    version = 1 if present is None else present.version + 1
    return (p.PutItem(p.ItemRow(*key, version, sealed(secrets, key), changed_at=app.clock.now())),)
