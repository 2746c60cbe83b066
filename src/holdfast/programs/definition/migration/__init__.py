"""Moving runs to another version of their definition: whether a run can move, and where it stands then."""
