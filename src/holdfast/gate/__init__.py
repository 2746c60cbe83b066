"""The gate: proposals of actions, their judgement, and their receipts.

It writes nothing, and waits only for the process that evaluates slow rules.
"""
