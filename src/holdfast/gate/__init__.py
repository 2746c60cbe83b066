"""The gate: what an action proposes, how it is judged, and what its receipt says.

It writes nothing, and waits for nothing but the process that evaluates slow rules.
"""
