"""People: whether two names mean the same person. Pure decisions."""
