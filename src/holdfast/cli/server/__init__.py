"""The command that serves the HTTP API."""
