"""``holdfast machines`` and ``holdfast cells``: machines, their cells, and events that no cell could handle."""
