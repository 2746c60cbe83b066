"""Options and words that the commands about webhooks and subscriptions share."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.cli import options, output
from holdfast.cli.options import F
from holdfast.client.views.webhooks import DeliveryInfo, SubscriptionInfo, WebhookInfo
from holdfast.client.webhooks.secrets import OVERLAP_SECONDS


def secret_file(function: F) -> F:
    """A secret that is given, without being on the command line, where others could read it."""
    return click.option(
        "--secret-file",
        type=click.File(),
        metavar="FILE",
        help="A secret that you were given, in a file; - reads it here. [a new one]",
    )(function)


secret_name = click.option(
    "--secret-name", default="", metavar="NAME", help="A secret of server and workers, by name: nothing is kept."
)
overlap = click.option(
    "--overlap",
    "overlap_seconds",
    type=options.Duration(),
    default=OVERLAP_SECONDS,
    metavar="TIME",
    help="How long the secret before it still counts, as 2h. [1d]",
)


def given_secret(file: Any) -> str | None:
    """The secret in a file, without its line's end."""
    return None if file is None else str(file.read()).rstrip("\r\n")


def record(info: WebhookInfo | SubscriptionInfo | DeliveryInfo) -> dict[str, Any]:
    """What ``--json`` writes."""
    found: dict[str, Any] = msgspec.to_builtins(info)
    return found


def write_secret(info: WebhookInfo | SubscriptionInfo, secret: str | None, sentence: str, as_json: bool) -> None:
    """The secret on stdout, and what there is to say of it beside that."""
    if as_json:
        output.emit({**record(info), "secret": secret})
        return
    output.note(sentence)
    if secret is not None:
        output.note("its secret follows; keep it now, it is not shown again:")
        output.say(secret)


def write(info: WebhookInfo | SubscriptionInfo | DeliveryInfo, sentence: str, as_json: bool) -> None:
    """What was done."""
    if as_json:
        output.emit(record(info))
    else:
        output.say(sentence)
