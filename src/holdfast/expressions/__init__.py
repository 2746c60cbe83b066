"""Expressions, for policies and definitions. ``languages`` has all of them behind one shape; ``jq`` is a folder of its
own. The rest is CEL: ``expression`` is what others use, ``engine`` the one place that knows the library. No clock, no
input but the variables, and no knowledge of policies or runs.

A text becomes a tree (``lexer``, ``parser``, ``syntax``), the tree is checked against ``shapes`` and its numbers are
widened (``checker``, ``operators``, ``functions``), and has one normal text (``printer``). Simple ones are evaluated in
Python (``shortcut``), the others by the engine, which is given only what they read (``reads``). What may be slow
(``extents``, ``effort``) and cannot be interrupted is evaluated in another ``process``; a server's event loop goes on
meanwhile (``turns``)."""
