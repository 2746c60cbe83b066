"""Commands about what others tell us, and what they are told."""
