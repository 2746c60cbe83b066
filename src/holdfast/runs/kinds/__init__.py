"""The kinds of invocation, one file each, and their table. Whoever meets a call of a run asks the table what it is.

Nothing here waits, writes or knows a worker: what becomes of a call is said as a value.
"""
