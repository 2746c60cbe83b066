"""The kernel: a pure function from a journal and what arrived to the next events and requests.

It knows no clock, store, network or thread: ``now`` and entropy are given to it, and what it wants done it returns.
"""
