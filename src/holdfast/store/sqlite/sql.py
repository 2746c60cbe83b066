"""The statements, loaded once."""

from typing import Final

from holdfast.store.statements import load_statements

SQL: Final = load_statements("holdfast.store.sqlite", "statements.sql")
GATE: Final = load_statements("holdfast.store.sqlite", "gate.sql")
