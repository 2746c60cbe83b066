"""The journal: twenty events, the ids in them, the laws they obey and the bytes they become.

Nothing here knows a clock, a store, a thread or a program. An event's name and shape never change.
"""
