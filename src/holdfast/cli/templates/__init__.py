"""``holdfast templates`` and ``holdfast emit``: what a tenant offers to be started, and what starts it."""
