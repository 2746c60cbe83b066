"""A task and what can be said to it, whatever its subject. Pure: a task and an answer in, the next version out.

``answers`` has the states and what people say, ``eligibility`` who may, ``timers`` what time does to a task, ``forms``
what a form asks and which answers fit. Nothing here reads a clock, writes, or knows the worker.
"""
