"""Slack: a card for every open approval, which is answered by its buttons and edited when the task changes.

``poster`` shows tasks, ``presses`` takes what people do, ``service`` is both together. What is kept about tenants and
accounts is in ``people/slack``. Nothing here decides who may do what: presses go through bound clients.
"""

from holdfast.slack.service import Slack
from holdfast.slack.settings import SlackSettings

__all__ = ["Slack", "SlackSettings"]
