"""Templates: a tenant's entries for programs, what may be done to them, and what starts them. Pure decisions.

Nothing here reads a store or a clock.
"""
