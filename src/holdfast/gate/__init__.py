"""The gate: what an action proposes, how it is judged, approved, receipted and proved afterwards.

It writes nothing, and waits for nothing but the process that evaluates slow rules. The worker passes
actions through it, the client answers its tasks.
"""
