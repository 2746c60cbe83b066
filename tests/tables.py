"""Long tables in one test: every row is tried, and the test fails with all rows that fail."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pytest

MOST_SHOWN = 20


def table(
    names: str | tuple[str, ...], rows: Iterable[Any], *, ids: Callable[[Any], object] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like ``pytest.mark.parametrize``, for rows that are too many and too quick to be tests of their own.

    Rows share the test's fixtures. An empty table fails.
    """
    rows = tuple(rows)
    arguments = (names,) if isinstance(names, str) else names

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def try_all(**fixtures: Any) -> None:
            assert rows, "the table is empty"
            failed = []
            for row in rows:
                values = (row,) if isinstance(names, str) else row
                try:
                    test(**fixtures, **dict(zip(arguments, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(f"{str(ids(row))[:200]}: {_describe(error)}")
            if failed:
                shown = [*failed[:MOST_SHOWN], *(["…"] if len(failed) > MOST_SHOWN else [])]
                pytest.fail("\n".join([f"{len(failed)} of {len(rows)} rows fail:", *shown]), pytrace=False)

        parameters = [each for name, each in signature.parameters.items() if name not in arguments]
        try_all.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return try_all

    return decorate


def _describe(error: BaseException) -> str:
    """The error, and the line of the test that it came through last."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/" in frame.filename]
    place = f" (line {lines[-1].lineno} of {lines[-1].filename.rpartition('/')[2]})" if lines else ""
    return f"{type(error).__name__}: {error}{place}"
