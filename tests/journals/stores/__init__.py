"""Databases of earlier versions, as text: they must open, be brought up to date, and go on."""
