"""A trace: constants, users, actions with the state that each leads to, and labels that say which are illegal."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec

Params = dict[str, Any]


class TraceError(ValueError):
    """A file that is no trace."""


class Constants(msgspec.Struct, frozen=True):
    """The model's constants. ``max_retries`` counts the attempts of a step."""

    tenants: list[str]
    steps: list[str]
    templates: list[str]
    max_retries: int
    max_concurrent_runs: int


class TraceUser(msgspec.Struct, frozen=True):
    """A user of the model."""

    level: int
    tenant: str


class Init(msgspec.Struct, frozen=True):
    """How a trace begins: with users, and with nothing else."""

    users: dict[str, TraceUser]


class TraceStep(msgspec.Struct, frozen=True):
    """An action, and the state that the trace claims to follow; None claims nothing."""

    action: str
    params: Params
    state: dict[str, Any] | None = None


class Labels(msgspec.Struct, frozen=True):
    """Which steps are illegal, and by which rule; and after which the claimed state is not the model's."""

    illegal: list[tuple[int, str]] = []
    differs: list[int] = []


class ModelTrace(msgspec.Struct, frozen=True):
    """A behaviour to be followed."""

    constants: Constants
    init: Init
    steps: list[TraceStep]
    expect: Labels | None = None
    source: str = ""


def read_trace(path: str | Path) -> ModelTrace:
    """The trace of a JSON file, which may be compressed by gzip. Raises TraceError and OSError."""
    data = Path(path).read_bytes()
    try:
        return msgspec.json.decode(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, type=ModelTrace)
    except (msgspec.MsgspecError, EOFError, UnicodeDecodeError, gzip.BadGzipFile) as error:
        raise TraceError(f"{path} is no trace: {error}") from error
