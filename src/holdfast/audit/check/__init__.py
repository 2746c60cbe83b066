"""Checks of journals, receipts, tasks, chains and evidence. They read, and change nothing."""
