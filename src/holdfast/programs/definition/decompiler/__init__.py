"""The decompiler: from a definition back to what people write. Compiled again, it has the same digest."""
