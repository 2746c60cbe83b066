"""Schedules as people steer them, and as code declares them."""
