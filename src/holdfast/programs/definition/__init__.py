"""Definitions: workflows as data, in YAML or by a Python DSL, compiled to one canonical form and interpreted."""
