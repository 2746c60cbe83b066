"""Programs: the code that runs execute. Each kind advances deterministically and depends on the kernel alone."""
