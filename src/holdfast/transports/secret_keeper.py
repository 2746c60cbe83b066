"""The keeper of secrets: it judges who may use which name, and then looks its value up.

1. The installation's own secrets are no tenant's, whatever a table says: names that log people in, here or in another
   process on the store, and the values of the variables in ``OWN`` and of the files in ``OWN_FILES``.
2. With a table, a tenant uses the names that it has lines for, each for its use, and towards its hosts.
3. Without one, names resolve as long as the asking tenant is the only one of the store: of those that have a run, a
   user, or were made. That is looked up each time, so a second tenant is noticed at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.errors import InvalidPolicy, InvalidSettings, SecretRefused
from holdfast.store import protocol as p
from holdfast.transports.secrets import (
    SOURCES,
    ConnectorSecrets,
    SecretSource,
    SecretUse,
    one_spelling,
    value_of,
)

if TYPE_CHECKING:
    from holdfast.gate.policy.keeper import FileKeeper
    from holdfast.transports.secret_table import SecretTable

TABLE: Final = "HOLDFAST_SECRETS_TABLE"
LOGIN_SECRET: Final = "login_secret"  # noqa: S105  # the kind of an item
"""The item that says that a name logs people in: its id is the name, in one spelling."""

OWN: Final = (
    "HOLDFAST_KEY_PASSPHRASE",
    "HOLDFAST_METRICS_TOKEN",
    "HOLDFAST_SLACK_APP_TOKEN",
    "HOLDFAST_SLACK_BOT_TOKEN",
    "HOLDFAST_SLACK_SIGNING_SECRET",
    "PGPASSWORD",
)
"""Variables with secrets of the installation."""
OWN_FILES: Final = (*(f"{variable}_FILE" for variable in OWN), "PGPASSFILE")
"""Variables that name files with such secrets."""


class SecretSettings(msgspec.Struct, frozen=True):
    """How an engine finds secrets: `Holdfast(url, secrets=…)` takes it.

    ``table`` is the operator's file that says which tenant may use which. ``sources`` are asked before the environment
    and the files of HOLDFAST_SECRETS.
    """

    table: str | Path | None = None
    sources: Sequence[SecretSource] = ()


class SecretKeeper:
    """The secrets of one engine. Raises InvalidSettings where the table cannot be used."""

    def __init__(self, store: p.Store, given: SecretSettings | str | Path | None = None) -> None:
        self.given = given if isinstance(given, SecretSettings) else SecretSettings(given)
        self._store = store
        self._sources = (*self.given.sources, *SOURCES)
        self._login_names: set[str] = set()
        self._file: FileKeeper[SecretTable] | None = None
        if self.given.table is not None:
            self.use_table(self.given.table)

    # -- the table ---------------------------------------------------------------------------------------------------

    @property
    def has_table(self) -> bool:
        return self._file is not None

    def use_table(self, path: str | Path) -> None:
        """Judge by the table of this file from now on. Raises InvalidSettings."""
        from holdfast.gate.policy.keeper import FileKeeper
        from holdfast.transports.secret_table import parse_table

        try:
            self._file = FileKeeper(path, lambda data, source: parse_table(data, source, self._is_for_logins), "table")
        except InvalidPolicy as error:  # it cannot be read at all
            raise InvalidSettings(str(error)) from None
        self.given = SecretSettings(path, self.given.sources)

    def reload(self) -> bool:
        """Load the table if its file changed, as each use does; gives whether another one is in force now."""
        return self._file is not None and self._file.reload()

    # -- the installation's own --------------------------------------------------------------------------------------

    def reserve(self, name: str) -> None:
        """Keep a name for logging people in: no tenant may use it. Raises InvalidSettings where the table names it."""
        self._login_names.add(one_spelling(name))
        if self.given.table is not None:
            self.use_table(self.given.table)

    def _is_for_logins(self, name: str) -> bool:
        return one_spelling(name) in self._login_names

    async def login_secret(self, name: str) -> str:
        """The value of a secret by which people are logged in. Raises SecretMissing."""
        return await value_of(name, SecretUse("", "login"), self._sources)

    # -- those of tenants --------------------------------------------------------------------------------------------

    def of_connectors(self, tenant: str) -> ConnectorSecrets:
        """What finds the secrets of calls that this tenant's runs make."""

        async def find(name: str, url: str) -> str:
            return await self.value(name, SecretUse(tenant, "connector", url))

        return find

    async def value(self, name: str, use: SecretUse) -> str:
        """The value of a tenant's secret for this use. Raises SecretRefused, or SecretMissing."""
        if self._is_for_logins(name) or await self._store.items(LOGIN_SECRET, 1, id=one_spelling(name)):
            raise _ours(name)
        await self._judge(name, use)
        found = await value_of(name, use, self._sources)
        if found.strip() in await asyncio.to_thread(_own_values):
            raise _ours(name)
        return found

    async def _judge(self, name: str, use: SecretUse) -> None:
        if self._file is None:
            if any(tenant != use.tenant for tenant in await self._store.owners(2)):
                raise _refused(name, use, f"the store has several tenants, and this process has no {TABLE}")
            return
        await asyncio.to_thread(self._file.reload)  # its folder may be slow, or far away
        if not self._file.current.allows(name, use):
            raise _refused(name, use, f"no line of the file of {TABLE} lets tenant {use.tenant!r} do so")


def _refused(name: str, use: SecretUse, why: str) -> SecretRefused:
    from holdfast.transports.secret_table import line_for

    what = f"a {use.use}" if use.use != "connector" else "a call by connector"
    return SecretRefused(f"the secret {name} is not for {what}: {why}. The operator may add {line_for(name, use)}")


def _ours(name: str) -> SecretRefused:
    return SecretRefused(f"the secret {name} is one of the installation's own, which no tenant may use: name another")


def _own_values() -> set[str]:
    return {value for value in _found_values() if value}


def _found_values() -> Iterator[str]:
    for variable in OWN:
        yield os.environ.get(variable, "").strip()
    for file in filter(None, map(os.environ.get, OWN_FILES)):
        try:
            yield Path(file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            continue  # what cannot be read is no secret here
