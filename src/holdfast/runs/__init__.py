"""What worker and client share of a run: how it is born, what it is called, its messages, segments and journal.

Nothing here holds a lease or decides for a worker.
"""
