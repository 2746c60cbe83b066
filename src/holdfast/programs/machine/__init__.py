"""Machines: ``(state, event) → (state, events, effects)``, one cell for each key, many cells in each lane.

Nothing here does I/O or knows a clock: a worker brings the cells of a turn and commits what became of them.
"""
