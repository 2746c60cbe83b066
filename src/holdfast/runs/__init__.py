"""The parts of a run that worker and client share: its start, its ids, its messages, segments and journal.

Nothing here holds a lease or decides for a worker.
"""
