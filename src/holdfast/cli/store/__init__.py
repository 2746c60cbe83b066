"""Commands for the store itself: schema, backup, retention, health."""
