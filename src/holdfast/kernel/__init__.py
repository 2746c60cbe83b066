"""The kernel: a pure function from a journal and arrivals to the next events and requests.

It knows no clock, store, network or thread. ``now`` and entropy are given to it, and it returns its requests as values.
"""
