"""The scale-out store: any number of worker processes on any number of hosts, over PostgreSQL 13 or newer.

All state is on the server: two handles, two processes or two hosts see the same runs.
"""
