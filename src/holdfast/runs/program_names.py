"""How a call names the program that it starts: a function by its name, a definition by ``name@version#digest``.

The digest makes the call complete: whoever carries it out needs no definition at hand, and means the same one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from holdfast.runs.birth import Pin

DEFINITION: Final = "definition"
_DIGEST: Final = re.compile("[0-9a-f]{64}")


def definition_name(name: str, version: int, digest: str) -> str:
    """The name under which a definition is called."""
    return f"{name}@{version}#{digest}"


def resolve(called: str, pins: Callable[[str], Pin]) -> tuple[str, Pin]:
    """The program's own name, and the code that a run of it is started with."""
    reference, _, digest = called.partition("#")
    if not digest:
        return called, pins(called)
    known = pins(called)
    pin = known if known.digest == digest else Pin(DEFINITION, digest, bytes.fromhex(digest))
    return reference.partition("@")[0], pin


def digest_of_call(called: str) -> str | None:
    """The digest of the definition that a call starts, hexadecimal; None where it starts no definition."""
    digest = called.partition("#")[2]
    return digest if _DIGEST.fullmatch(digest) else None


def readable(called: str) -> str:
    """The name as people see it."""
    return called.partition("#")[0]
