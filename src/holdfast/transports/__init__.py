"""Transports: calls of the outside world that a definition makes without Python code, such as ``http``.

A transport turns what a definition says into a recorded call, and a recorded call into an effect. The gate judges that
effect like an action, and the performer attempts it. ``table`` finds a transport by its verb; a package may add one.
What a call needs of the network is imported when it is made, and not before.
"""
