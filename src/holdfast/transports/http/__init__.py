"""The transport ``http``: ``transport`` writes calls, ``effect`` is what the gate sees of one, ``sender`` makes it.

Only ``sender``, ``outgoing`` and ``network`` import the HTTP library. They are imported when the first call is made.
"""
