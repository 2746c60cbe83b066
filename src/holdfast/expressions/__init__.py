"""Expressions in CEL, for policies and definitions: ``expression`` is what others use, ``engine`` the one place that
knows the library. No clock, no input but the variables, and no knowledge of policies or runs."""
