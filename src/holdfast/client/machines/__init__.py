"""Machines for those who use them: events in, cells to look at, and what people do about parked ones."""
