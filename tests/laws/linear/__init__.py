"""Texts of others are read in time that grows no faster than they do: a search for what grows faster."""
