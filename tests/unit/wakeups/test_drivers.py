"""One suite judges every driver."""

from __future__ import annotations

import pytest

from holdfast.testing.redis import RedisServer
from holdfast.testing.wakeups import WakeupSuite
from holdfast.wakeups.driver import Wakeups
from holdfast.wakeups.redis import RedisWakeups
from tests.unit.wakeups.board import Board, BoardWakeups


class TestRedisWakeups(WakeupSuite):
    @pytest.fixture(autouse=True)
    def _on_the_server(self, redis: RedisServer) -> None:
        self.url = redis.url

    def driver(self) -> Wakeups:
        return RedisWakeups(self.url)


class TestOwnWakeups(WakeupSuite):
    """A driver that a user might write."""

    @pytest.fixture(autouse=True)
    def _on_a_board(self) -> None:
        self.board = Board()

    def driver(self) -> Wakeups:
        return BoardWakeups(self.board)
