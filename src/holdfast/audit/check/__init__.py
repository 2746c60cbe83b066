"""Checks of journals, receipts, tasks, chains and evidence. They only read."""
