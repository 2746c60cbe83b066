"""The same client for programs without an event loop."""
