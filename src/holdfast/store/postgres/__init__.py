"""The scale-out store: any number of worker processes on any number of hosts, over PostgreSQL 13 or newer.

Nothing here holds state that matters: two handles, two processes or two hosts see the same runs through the server.
"""
