"""Tasks: what a person may answer, and what a task is then. Pure: a task and an answer in, the next version out."""
