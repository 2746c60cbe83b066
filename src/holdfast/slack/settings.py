"""The settings for Slack: one app of one Slack workspace, for the whole installation.

Each secret is given by its variable, or by a file whose path is in the variable with ``_FILE`` behind it. Nothing of
them is ever logged or kept in the store.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import InvalidSettings

BOT_TOKEN: Final = "HOLDFAST_SLACK_BOT_TOKEN"  # noqa: S105  # the name of a variable
SIGNING_SECRET: Final = "HOLDFAST_SLACK_SIGNING_SECRET"  # noqa: S105  # the same
APP_TOKEN: Final = "HOLDFAST_SLACK_APP_TOKEN"  # noqa: S105  # the same
CONSOLE: Final = "HOLDFAST_SLACK_CONSOLE"
API: Final = "HOLDFAST_SLACK_API"
SLACK: Final = "https://slack.com/api/"


class SlackSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How Slack is reached. ``bot_token`` posts and edits cards.

    Presses come signed with ``signing_secret`` to the server, or through a connection that is opened with
    ``app_token`` (Socket Mode). ``console`` is the address of the console, to which cards link.
    """

    bot_token: str
    signing_secret: str | None = None
    app_token: str | None = None
    console: str | None = None
    api: str = SLACK

    def __post_init__(self) -> None:
        for name in ("bot_token", "signing_secret", "app_token"):
            value = getattr(self, name)
            if value is not None and not _is_secret(value):
                raise InvalidSettings(f"{name} {_UNUSABLE}")

    def __repr__(self) -> str:
        return f"SlackSettings(api={self.api!r})"  # a settings object in a log must not show secrets


_UNUSABLE: Final = "is empty, or has a character that no secret of Slack has: mend it."


def _is_secret(value: str) -> bool:
    return bool(value) and value.isascii() and value.isprintable() and " " not in value


def settings_of(environment: Mapping[str, str] = os.environ) -> SlackSettings | None:
    """The settings that a process was given; None where it was given none. Raises InvalidSettings."""
    bot_token = _secret(environment, BOT_TOKEN, "xoxb-")
    signing_secret = _secret(environment, SIGNING_SECRET)
    app_token = _secret(environment, APP_TOKEN, "xapp-")
    if bot_token is None:
        if given := next((name for name, value in _named(signing_secret, app_token) if value), None):
            raise InvalidSettings(f"{given} is set, and {BOT_TOKEN} is not: set both, or neither.")
        return None
    return SlackSettings(
        bot_token=bot_token,
        signing_secret=signing_secret,
        app_token=app_token,
        console=_address(environment, CONSOLE),
        api=_address(environment, API) or SLACK,
    )


def _named(signing_secret: str | None, app_token: str | None) -> tuple[tuple[str, str | None], ...]:
    return (SIGNING_SECRET, signing_secret), (APP_TOKEN, app_token)


def _secret(environment: Mapping[str, str], name: str, beginning: str = "") -> str | None:
    """A secret, from its variable or its file. An empty one is a mistake, and must not count as none."""
    file = environment.get(f"{name}_FILE")
    if file is None:
        if (value := environment.get(name)) is None:
            return None
        origin = name
    else:
        if name in environment:
            raise InvalidSettings(f"{name} and {name}_FILE are both set: set one of them.")
        origin = f"{name}_FILE"
        try:
            value = Path(file).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:  # its text may quote the file
            raise InvalidSettings(f"{origin} names {file!r}, which cannot be read ({type(error).__name__}).") from None
    value = value.strip()
    if not _is_secret(value):
        raise InvalidSettings(f"{origin} {_UNUSABLE}")
    if not value.startswith(beginning):
        raise InvalidSettings(f"{origin} does not begin with {beginning!r}: it is another secret, it seems.")
    return value


def _address(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name, "").strip()
    if not value:
        return None
    if not value.startswith(("https://", "http://")) or not value.isprintable() or " " in value:
        raise InvalidSettings(f"{name} is an address that begins with https://, not {value!a:.80}.")
    return value.rstrip("/") + "/"
