"""Streams of events: one watcher for all of them, and how an event is written."""
