"""Expressions in jq, the language of Serverless Workflow: ``expression`` is what others use, ``process`` the one place
that knows the library, and runs in a process of its own. ``lexer`` finds what an expression reads, ``functions`` are
those that it finds beside jq's."""
