"""What a measurement depends on beside the machine: the interpreter, how it was built, and the library of SQLite."""

from __future__ import annotations

import platform
import sqlite3
import sysconfig


def interpreter() -> str:
    """The interpreter with its compiler, and whether it was built with optimisations that take long to build."""
    flags = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    built = {"PGO": "--enable-optimizations" in flags, "LTO": "--with-lto" in flags}
    words = ", ".join(f"{'with' if has else 'without'} {name}" for name, has in built.items())
    return f"{platform.python_implementation()} {platform.python_version()} ({platform.python_compiler()}, {words})"


def sqlite() -> str:
    """The version of SQLite's library in this interpreter."""
    return sqlite3.sqlite_version
