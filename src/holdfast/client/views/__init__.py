"""What the client gives and what commands show: runs, journals, tasks, receipts and the audit, secrets masked.

Each subject has a module with a view (a frozen struct), a function that makes it from a row of the store, and one that
writes it as ``--json`` does. Nothing here changes anything.
"""
