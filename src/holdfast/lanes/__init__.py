"""What the store keeps of a machine's lanes, read and written for worker and client alike.

``counts`` has how many lanes a machine has in a tenant and how they were split, ``roots`` the roots of their cells.
Nothing here knows a machine's code: a lane as a program is in ``programs/machine/lanes``.
"""
