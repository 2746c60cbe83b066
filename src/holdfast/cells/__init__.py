"""Cells: the records of a machine's instances, and the content-addressed tree that indexes them, with its proofs.

Nothing here knows a clock, a store, a machine's code or asyncio: nodes are read through a function that is given.
"""
