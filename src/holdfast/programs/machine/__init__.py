"""Machines: programs that turn a state and an event into a state, events and effects, for many keys.

``charts/`` reads SCXML and steps it. Nothing here does I/O or knows a store.
"""
