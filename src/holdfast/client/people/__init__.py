"""For whom a client acts, what it may, and the tenants, users and tokens that people keep."""
