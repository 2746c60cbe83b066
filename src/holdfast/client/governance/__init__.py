"""Tasks, receipts, the audit, evidence, and the story that the audit and the journals tell together."""
