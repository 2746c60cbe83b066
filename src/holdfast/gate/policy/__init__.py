"""The policy: reading its file, checking it, and evaluating its rules."""
