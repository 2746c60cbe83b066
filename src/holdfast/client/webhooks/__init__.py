"""Webhooks in and out, for whoever the client acts for."""
