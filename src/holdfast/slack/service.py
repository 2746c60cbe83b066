"""``Slack``: cards for approvals, and the ways in which presses come back, for one engine and one Slack app."""

from __future__ import annotations

import logging
from importlib import util
from typing import TYPE_CHECKING

from holdfast.errors import ExtraMissing
from holdfast.slack.poster import CardPoster
from holdfast.slack.presses import Presses
from holdfast.slack.settings import SlackSettings, settings_of
from holdfast.slack.web_api import SlackApi

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.slack.socket_mode import SocketReader

log = logging.getLogger("holdfast.slack")


class Slack:
    """Shows approvals in Slack while it runs: ``start`` it when the engine is open, ``stop`` it before that closes.

    With an app token presses come through Socket Mode. With a signing secret they come to the server that it is given
    to: ``Server(app, slack=Slack(app, settings))``. Without ``takes_presses`` it shows cards, and answers nothing.
    """

    def __init__(self, app: Holdfast, settings: SlackSettings, *, takes_presses: bool = True) -> None:
        if settings.app_token is not None and util.find_spec("websockets") is None:
            raise ExtraMissing("Socket Mode needs websockets: pip install 'holdfast[slack]'.")
        self.settings = settings
        self.takes_presses = takes_presses
        self._api = SlackApi(settings)
        self._app_api = None if settings.app_token is None else SlackApi(settings, settings.app_token)
        self.poster = CardPoster(app, self._api, settings.console)
        self.presses = Presses(app, self._api, settings.console, self.poster.wake)
        self.socket = self._socket()
        self._is_started = False

    def _socket(self) -> SocketReader | None:
        if self._app_api is None or not self.takes_presses:
            return None
        from holdfast.slack.socket_mode import SocketReader

        return SocketReader(self._app_api, self.presses)

    def start(self, *, serves: bool = False) -> None:
        """Begin to show approvals, and to take presses. Safe to call twice. ``serves``: a server has its route."""
        if not self._is_started:
            self._is_started = True
            log.info(self.describe(serves=serves))
        self.poster.start()
        if self.socket is not None:
            self.socket.start()

    async def stop(self) -> None:
        """End it: no more presses, and the call that is under way may end. Safe to call twice, and before ``start``."""
        if self.socket is not None:
            await self.socket.stop()
        await self.presses.stop()
        await self.poster.stop()
        await self._api.close()
        if self._app_api is not None:
            await self._app_api.close()

    def describe(self, *, serves: bool) -> str:
        """What it does, in one line for the log. ``serves`` says whether the process has a server."""
        ways = []
        if self.socket is not None:
            ways.append("presses come through Socket Mode")
        if serves and self.takes_presses and self.settings.signing_secret is not None:
            ways.append("presses come signed to /slack/actions")
        if serves and self.settings.signing_secret is None:
            ways.append("there is no signing secret, so there is no /slack/actions")
        return f"approvals are shown in Slack; {' and '.join(ways) or 'presses are for other processes'}"


def slack_of_environment(app: Holdfast, *, takes_presses: bool = True) -> Slack | None:
    """Slack as the environment says; None where it says nothing. Raises InvalidSettings, ExtraMissing."""
    settings = settings_of()
    return None if settings is None else Slack(app, settings, takes_presses=takes_presses)
