"""Commands that start, show and steer runs, and the worker."""
