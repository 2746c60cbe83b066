"""The statements, loaded once."""

from typing import Final

from holdfast.store.statements import load_statements

SQL: Final = {
    **load_statements("holdfast.store.postgres", "statements.sql"),
    **load_statements("holdfast.store.postgres", "governance.sql"),
    **load_statements("holdfast.store.postgres", "security.sql"),
}
