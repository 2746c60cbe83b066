"""Commands about what starts by itself."""
