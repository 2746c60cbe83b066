"""The roles of a worker that look at the whole store: what is ready, due, over, or left behind."""
