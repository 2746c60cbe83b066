"""Expressions and scripts of charts: a small part of Python, evaluated over its syntax tree.

``values`` says what data is and how much of it, ``dialect`` reads the texts of the three data models, ``operators`` and
``functions`` are all that an expression can do, ``evaluator`` and ``script`` walk the tree. Nothing here may call
``eval`` or ``exec``, reach an attribute of a Python object, or depend on a clock or on chance.
"""
