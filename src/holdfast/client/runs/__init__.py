"""What a caller can do to runs and read of them: handles, starting, explaining, repairing."""
