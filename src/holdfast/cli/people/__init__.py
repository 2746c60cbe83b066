"""Commands about people: tenants, workspaces, users and tokens."""
