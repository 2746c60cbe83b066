"""People: who is one and who are two. Pure decisions."""
