"""Every variable of the environment that a page or a file of ``deploy/`` names is read by the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.docs.pages import ROOT
from tests.tables import table

FILES: Final = [*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md", *sorted((ROOT / "deploy").iterdir())]
_NAME: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:_\b)?")
_QUOTED: Final = re.compile(rf"['\"]{_NAME.pattern}['\"]")
OF_OTHERS: Final = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": "OpenTelemetry's exporter",
    "OTEL_SERVICE_NAME": "OpenTelemetry",
    "SSL_CERT_FILE": "httpx",
}
"""Variables that a library reads; Holdfast leaves that to it."""
NO_VARIABLES: Final = {
    **dict.fromkeys(("AF_INET", "AF_INET6", "AF_UNIX"), "systemd"),
    **dict.fromkeys(("BANK_HOOK", "BUREAU_KEY", "BUREAU_TOKEN", "MAPS_KEY", "OPS_HOOK"), "names of secrets"),
    "A_B": "how a secret's name becomes a variable",
    "REPEATED_TOO_OFTEN": "a code of an error",
}


@cache
def constants() -> frozenset[str]:
    """Every text of the source that could be a variable's name, without comments and docstrings."""
    found: set[str] = set()
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if not _QUOTED.search(text):
            continue  # most modules: to parse them all takes seconds
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
                found.add(node.value)
    return frozenset(found)


def is_read(name: str) -> bool:
    """Whether the source reads it: by this name, as the file of such a secret, or as a secret of the user's."""
    from holdfast.slack import settings

    of_files = {f"{each}_FILE" for each in vars(settings).values() if isinstance(each, str) and each in constants()}
    is_secret = name.startswith("HOLDFAST_SECRET_") and "HOLDFAST_SECRET_" in constants()
    return name in constants() or name in of_files or is_secret


def named(file: Path) -> Iterator[str]:
    yield from dict.fromkeys(_NAME.findall(file.read_text(encoding="utf-8")))


@table("file", FILES, ids=lambda file: file.name)
def test_every_variable_that_is_named_is_read(file: Path) -> None:
    """Who sets one that nothing reads believes in a protection, or in a proxy, that is not there."""
    assert [name for name in named(file) if name not in {*OF_OTHERS, *NO_VARIABLES} and not is_read(name)] == []


def test_what_others_read_is_named() -> None:
    """The exceptions are no longer than they must be."""
    assert {name for file in FILES for name in named(file)} >= {*OF_OTHERS, *NO_VARIABLES}
