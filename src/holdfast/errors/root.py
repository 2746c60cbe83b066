"""The base of all errors, and the module under which journals and users know them."""

from __future__ import annotations

from typing import ClassVar, Final

HOME: Final = "holdfast.errors"


class HoldfastError(Exception):
    """The base of every error that Holdfast raises on purpose."""

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500

    __module__ = HOME

    def __init_subclass__(cls) -> None:
        """Journals record an error by its module and name, and users import it from there: all have one module."""
        super().__init_subclass__()
        if cls.__module__.startswith(f"{HOME}."):
            cls.__module__ = HOME
