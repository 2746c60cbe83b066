"""Tasks of every subject, as pure functions: a task and an answer in, the task's next version out.

``answers`` has the states and people's answers, ``eligibility`` the people who may answer, ``timers`` reminders,
escalation and expiry, ``forms`` the check of answers, and ``questions`` the forms that workflows ask. Nothing here
reads a clock, writes, or knows the worker.
"""
