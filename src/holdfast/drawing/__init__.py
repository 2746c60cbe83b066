"""Pictures of definitions and runs: parts (what is drawn), one layout (where), and writers (SVG, PNG, JSON, Mermaid).

Everything here is pure: no store, no clock, no file.
"""
