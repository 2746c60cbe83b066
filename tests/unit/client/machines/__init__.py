"""Machines as those see them who look at their cells."""
