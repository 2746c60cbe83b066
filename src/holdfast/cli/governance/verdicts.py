"""Writes the claims of a check, and reads the public keys that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from holdfast.audit.check.claims import Verdict
from holdfast.audit.keys import read_pem
from holdfast.cli import exits, output
from holdfast.cli.output import TableCell
from holdfast.errors import InvalidRequest

trusted_keys = click.option(
    "--key", "key_files", multiple=True, metavar="FILE", help="Public keys that you trust (PEM); may be repeated."
)

_MARKS: Final = {
    "proved": TableCell("✓ proved      ", "green"),
    "consistent": TableCell("○ consistent  ", "cyan"),
    "not proved": TableCell("? not proved  ", "yellow"),
    "broken": TableCell("✗ broken      ", "red"),
}


_GIVE: Final = ": give --key to know"


def public_keys(files: Sequence[str]) -> bytes | None:
    """The keys in those files, as PEM; None where no file is named."""
    keys = b""
    for name in files:
        pem = content(name)
        try:
            read_pem(pem)
        except InvalidRequest as error:
            raise InvalidRequest(f"{name}: {error}") from error
        keys += pem + b"\n"
    return keys or None


def content(file: str) -> bytes:
    """The content of a file."""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror or error}") from error


def write(verdict: Verdict, what: str, about: Mapping[str, Any], as_json: bool, *, keys: bool) -> int:
    """Write the claims, and give the exit code. ``keys`` is whether any were given."""
    if as_json:
        claims = [{"state": claim.state, "about": claim.about, "text": claim.text} for claim in verdict.claims]
        output.emit({**about, "good": verdict.good, "trusted": verdict.trusted, "claims": claims})
        return exits.GOOD if verdict.good else exits.NO
    for claim in verdict.claims:
        output.say(_MARKS[claim.state], claim.text)
    if not verdict.good:
        output.say(TableCell("✗ ", "red"), f"{what} is not what it claims to be")
    elif verdict.trusted:
        output.say(TableCell("✓ ", "green"), f"{what} is good, and a key that you trust vouches for it")
    else:
        output.say(
            TableCell("○ ", "cyan"), f"{what} fits together, and nothing says who made it{'' if keys else _GIVE}"
        )
    return exits.GOOD if verdict.good else exits.NO
