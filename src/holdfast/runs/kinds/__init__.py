"""The kinds of invocation, one file each, and the table through which calls of a run find their kind.

Nothing here waits, writes or knows a worker: a kind describes how its calls are handled, as values.
"""
