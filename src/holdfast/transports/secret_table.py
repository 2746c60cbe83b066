"""The operator's table of secrets: which tenant may use which name, for what, and towards which hosts.

It is a YAML file with a line for each tenant and name. A name has one use in all its lines, however it is spelled: what
subscriptions sign with would prove deliveries to a webhook that checks with the same, and a connector sends it away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.errors import InvalidPolicy, InvalidRequest, InvalidSettings
from holdfast.gate.policy.file import read_as, text_of
from holdfast.gate.policy.place import Path
from holdfast.people.names import NAME as PERSON_NAME
from holdfast.people.names import is_name
from holdfast.transports.http.urls import read_url
from holdfast.transports.secrets import NAME, SecretUse, one_spelling

EVERY_TENANT: Final = "*"
CONTENT: Final = "it begins with `version: 1` and has `secrets:`"

_Text = Annotated[str, Meta(min_length=1)]


class SecretLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One tenant's use of one name."""

    name: Annotated[_Text, Meta(description="the name of the secret")]
    tenant: Annotated[_Text, Meta(description="the tenant that may use it; `*` is every tenant, for a connector")]
    use: Annotated[
        Literal["connector", "webhook", "subscription"],
        Meta(description="for what: to call a service, to check deliveries, or to sign deliveries"),
    ]
    hosts: Annotated[
        tuple[_Text, ...],
        Meta(description="where a connector may send it: b.example, *.b.example, b.example:8443, http://10.0.0.7:8080"),
    ] = ()

    def allows(self, name: str, use: SecretUse) -> bool:
        """Whether it is this name's line for this use."""
        is_theirs = self.tenant in (use.tenant, EVERY_TENANT)
        if not is_theirs or (self.name, self.use) != (name, use.use):
            return False
        return use.use != "connector" or any(_fits(origin_of_host(host), origin_of(use.url)) for host in self.hosts)

    def __str__(self) -> str:
        """The line as the table has it."""
        given = {"name": self.name, "tenant": self.tenant, "use": self.use}
        parts = [f"{key}: {_written(value)}" for key, value in given.items()]
        if self.hosts:
            parts.append(f"hosts: [{', '.join(map(_written, self.hosts))}]")
        return f"- {{{', '.join(parts)}}}"


class SecretFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table as it is written."""

    version: Annotated[Literal[1], Meta(description="the version of this format, which is 1")]
    secrets: Annotated[list[SecretLine], Meta(description="a line for each tenant and name")]


class SecretTable(Struct, frozen=True, kw_only=True):
    """A valid table."""

    lines: tuple[SecretLine, ...]
    hash: str
    source: str

    def allows(self, name: str, use: SecretUse) -> bool:
        return any(line.allows(name, use) for line in self.lines)


def parse_table(data: bytes, source: str, is_ours: Callable[[str], bool] = lambda _: False) -> SecretTable:
    """The table of a file. ``is_ours`` is whether a name is a secret of the installation itself.

    Raises InvalidSettings with every problem, each with its line, its column and the remedy.
    """
    try:
        file = read_as(text_of(data, source), source, SecretFile, lambda file: _problems(file, is_ours), CONTENT)
    except InvalidPolicy as error:  # the reader of policy files
        raise InvalidSettings(str(error)) from None
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return SecretTable(lines=tuple(file.secrets), hash=digest, source=source)


def read_table(path: str, is_ours: Callable[[str], bool]) -> SecretTable:
    """The table of the file at a path. Raises InvalidSettings."""
    from holdfast.gate.policy.policy import content  # loads the language of policies

    try:
        data = content(path)
    except InvalidPolicy as error:
        raise InvalidSettings(str(error)) from None
    return parse_table(data, path, is_ours)


def line_for(name: str, use: SecretUse) -> SecretLine:
    """The line by which the operator lets this be."""
    assert use.use != "login"
    hosts = (origin_of(use.url).removeprefix("https://"),) if use.use == "connector" else ()
    return SecretLine(name=name, tenant=use.tenant, use=use.use, hosts=hosts)


def _problems(file: SecretFile, is_ours: Callable[[str], bool]) -> Iterator[tuple[Path, str]]:
    uses: dict[str, SecretLine] = {}
    seen: set[tuple[str, str]] = set()
    for number, line in enumerate(file.secrets):
        at = ("secrets", number)
        if not NAME.fullmatch(line.name):
            yield (*at, "name"), "a secret's name is letters, digits, _, . and -, at most 100"
        if is_ours(line.name):
            yield (*at, "name"), f"{line.name} is a secret of the installation, which no tenant may use: name another"
        first = uses.setdefault(one_spelling(line.name), line)
        if first.use != line.use:
            yield (
                (*at, "use"),
                f"{first.name} is for a {first.use} in another line, and a secret has one use: give the {line.use} "
                "a secret of its own",
            )
        if (line.tenant, line.name) in seen:
            yield at, f"{line.name} of tenant {line.tenant} has another line: put all its hosts into one"
        seen.add((line.tenant, line.name))
        for path, what in _misfits(line):
            yield (*at, *path), what


def _misfits(line: SecretLine) -> Iterator[tuple[Path, str]]:
    is_connector = line.use == "connector"
    if line.tenant == EVERY_TENANT and not is_connector:
        yield ("tenant",), f"every tenant may use a connector's secret only: name the tenant of the {line.use}"
    elif line.tenant != EVERY_TENANT and not is_name(line.tenant):
        yield ("tenant",), f"a tenant is {PERSON_NAME}"
    if is_connector and not line.hosts:
        yield (), "a connector's secret needs `hosts`: where may it be sent, such as [api.example]?"
    if not is_connector and line.hosts:
        yield ("hosts",), f"a {line.use} sends its secret nowhere: remove `hosts`"
    for place, host in enumerate(line.hosts):
        try:
            origin_of_host(host)
        except InvalidRequest:
            what = f"{host!a:.80} is no host: write b.example, *.b.example, b.example:8443 or http://10.0.0.7:8080"
            yield ("hosts", place), what


# -- hosts -------------------------------------------------------------------------------------------------------------


def origin_of(url: str) -> str:
    """The scheme, host and port of a URL; a port that the scheme implies is left out. Raises InvalidRequest."""
    scheme, _, rest = read_url(url, "the URL").target.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def origin_of_host(host: str) -> str:
    """What a host of the table means: https unless it says http. It may begin with ``*.``. Raises InvalidRequest."""
    scheme, _, place = host.rpartition("://")
    if set(place) & set("/?#@"):
        raise InvalidRequest("a host has neither a path nor a user name")
    star = "*." if place.startswith("*.") else ""
    return origin_of(f"{scheme or 'https'}://{place.removeprefix('*.')}").replace("://", f"://{star}")


def _fits(allowed: str, origin: str) -> bool:
    """Whether an origin is the allowed one, or a host below it."""
    before, star, parent = allowed.partition("*")
    if not star:
        return allowed == origin
    labels = origin.removeprefix(before).removesuffix(parent)
    return origin == f"{before}{labels}{parent}" and all(labels.split("."))


def _written(text: str) -> str:
    """A text as YAML has it within a line."""
    is_plain = text.isascii() and text.replace("_", "a").replace(".", "a").replace("-", "a").isalnum()
    return text if is_plain and text[0].isalpha() and text.lower() not in _WORDS else msgspec.json.encode(text).decode()


_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Texts that YAML takes for something else."""
