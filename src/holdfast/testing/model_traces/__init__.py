"""Behaviours of the model of templates, driven through a real engine.

``python -m holdfast.testing.model_traces FILE…`` follows traces. The model is in ``model`` and ``rules``; nothing else
here decides what is legal. ``engine`` and ``stage`` give an engine whose time and steps follow a trace, ``attempts``
does each action, ``observation`` reads what came of it, and ``driver`` compares. ``walks`` makes traces at random.
"""
