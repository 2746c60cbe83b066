"""The embedded store: one file, WAL, ``synchronous=FULL``, one writer, readers beside it."""
