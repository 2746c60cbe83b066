"""The extra ``server``: the libraries that commands which listen need."""

from __future__ import annotations

from importlib import util
from typing import Final

from holdfast.errors import ExtraMissing

NEEDED: Final = ("jinja2", "prometheus_client", "python_multipart", "starlette", "uvicorn")


def check_extra(what: str) -> None:
    """Raises ExtraMissing where one of them is not installed."""
    if missing := [name for name in NEEDED if util.find_spec(name) is None]:
        raise ExtraMissing(f"{what} needs {' and '.join(missing)}: pip install 'holdfast[server]'.")
