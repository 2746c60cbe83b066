"""Programs: the ways to write what a run executes. Each advances deterministically and speaks to the kernel alone."""
