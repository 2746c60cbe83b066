"""Cells of machines, their roots, and runs that are split."""
