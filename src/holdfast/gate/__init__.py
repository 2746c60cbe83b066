"""The gate: what an action proposes, how it is judged, approved, receipted and proved afterwards.

It writes nothing and waits for nothing. The worker passes actions through it, the client answers its tasks.
"""
