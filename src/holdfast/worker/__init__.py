"""The worker: it leases runs, advances them, does their work, and keeps time.

Background roles, one small file each. The store decides everything that matters; whatever a worker only remembers can
be lost at any moment without harm.
"""
