"""Commands about machines and their cells."""
