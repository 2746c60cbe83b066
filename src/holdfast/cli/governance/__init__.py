"""Commands for tasks, receipts, policies, the audit and evidence."""
