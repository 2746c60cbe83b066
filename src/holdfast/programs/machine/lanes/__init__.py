"""Lanes of machines: how they hear, what a turn makes of their cells, how they are repeated, shadowed and split."""
