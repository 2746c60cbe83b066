"""The exchange: hints are coalesced, nothing waits for them, and trouble is logged once."""

from __future__ import annotations

import asyncio
import logging

import pytest

from holdfast.testing.virtual import run_virtually
from holdfast.wakeups.driver import Heard
from holdfast.wakeups.exchange import FLUSH_SECONDS, GAP_SECONDS, HintExchange, channel_of
from tests.unit.wakeups.board import Board, BoardWakeups


class Side:
    """One process's exchange on a board, open and listening, and the number of hints that it heard."""

    def __init__(self, board: Board, store: str = "a store") -> None:
        async def identity() -> str:
            return store

        self.hints = 0
        self.exchange = HintExchange(BoardWakeups(board), identity, self._hint)
        self.exchange.open()
        self.exchange.listen()

    def _hint(self) -> None:
        self.hints += 1


def test_all_changes_while_a_message_is_under_way_are_one_further_message() -> None:
    """A thousand commits are two messages, and never are two under way."""

    async def main() -> None:
        board = Board()
        board.seconds = 1.0
        side = Side(board)
        side.exchange.announce()
        await asyncio.sleep(0.5)
        for _ in range(1000):
            side.exchange.announce()
            await asyncio.sleep(0)
        await asyncio.sleep(10)
        assert len(board.messages) == side.exchange.sent == 2
        assert board.most_under_way == 1
        await side.exchange.close()

    run_virtually(main())


def test_however_many_changes_there_are_messages_are_so_many_a_second() -> None:
    """A fast broker is not flooded either."""

    async def main() -> None:
        board = Board()
        side = Side(board)
        for _ in range(5000):
            side.exchange.announce()
            await asyncio.sleep(0.001)
        assert 5 / GAP_SECONDS * 0.9 < len(board.messages) <= 5 / GAP_SECONDS + 1
        await side.exchange.close()

    run_virtually(main())


def test_an_idle_exchange_sends_at_once_and_only_others_hear_it() -> None:
    """One's own message is no news."""

    async def main() -> None:
        board = Board()
        ours, theirs = Side(board), Side(board)
        await asyncio.sleep(0.001)
        assert (ours.hints, theirs.hints) == (1, 1)  # the subscriptions
        ours.exchange.announce()
        await asyncio.sleep(0.001)
        assert (ours.hints, theirs.hints) == (1, 2)
        await ours.exchange.close()
        await theirs.exchange.close()

    run_virtually(main())


def test_a_message_says_nothing_and_its_channel_is_the_stores() -> None:
    """No run, no tenant, no host, no file: a name that tells nothing, and a random sender."""

    async def main() -> None:
        board = Board()
        ours, other = Side(board, "sqlite host-1 /var/acme.db"), Side(board, "sqlite host-1 /var/other.db")
        await asyncio.sleep(0.001)
        ours.exchange.announce()
        await asyncio.sleep(0.001)
        ((channel, sender),) = board.messages
        assert channel == channel_of("sqlite host-1 /var/acme.db")
        assert channel.startswith("holdfast:")
        assert "acme" not in channel
        assert len(sender) == 32
        assert other.hints == 1, "another store's processes are not woken"
        await ours.exchange.close()
        await other.exchange.close()

    run_virtually(main())


def test_nothing_is_connected_before_it_is_needed() -> None:
    """A process that only reads neither sends nor listens."""

    async def main() -> None:
        async def identity() -> str:
            raise AssertionError("nobody needs the channel")

        board = Board()
        exchange = HintExchange(BoardWakeups(board), identity, lambda: None)
        exchange.open()
        await asyncio.sleep(60)
        await exchange.close()
        assert board.ears == []

    run_virtually(main())


def test_the_last_hint_is_sent_before_the_end_and_waited_for_a_moment_only() -> None:
    """A command announces what it did and ends: its hint goes out. A broker that hangs delays the end by a second."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        board = Board()
        board.seconds = 0.2
        side = Side(board)
        side.exchange.announce()
        await side.exchange.close()
        assert len(board.messages) == 1
        board.seconds = 3600
        side = Side(board)
        side.exchange.announce()
        began = loop.time()
        await side.exchange.close()
        assert loop.time() - began <= FLUSH_SECONDS + 0.01
        side.exchange.announce()  # after the end it does nothing
        await side.exchange.close()
        assert len(board.messages) == 1

    run_virtually(main())


def test_trouble_is_logged_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    """An hour of it, with a change each second: two lines, one for each direction, and two when it is over."""

    async def main() -> None:
        board = Board()
        ours, theirs = Side(board), Side(board)
        await asyncio.sleep(1)
        board.refusal = ConnectionError("nobody is there")
        board.drop()
        for _ in range(3600):
            ours.exchange.announce()
            await asyncio.sleep(1)
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
        assert sum("cannot hear hints of other processes by BoardWakeups (nobody is there)" in m for m in texts()) == 2
        assert sum("cannot send hints to other processes by BoardWakeups (nobody is there)" in m for m in texts()) == 1
        heard = theirs.hints
        board.refusal = None
        await asyncio.sleep(10)
        assert sum("again" in text and text.startswith("can ") for text in texts()) == 3
        assert len(caplog.records) == 6
        assert len(board.messages) == 1, "an hour of changes is one hint"
        assert theirs.hints > heard, "whoever is back looks at the store"
        await ours.exchange.close()
        await theirs.exchange.close()

    def texts() -> list[str]:
        return [record.getMessage() for record in caplog.records]

    run_virtually(main())


def test_trouble_that_comes_and_goes_is_logged_seldom(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that falls down each second for an hour fills no disk, and is not asked all the time."""

    async def main() -> None:
        board = Board()
        side = Side(board)
        for _ in range(3600):
            await asyncio.sleep(1)
            board.drop()
        assert len(caplog.records) <= 2 * 60 + 2
        assert side.hints < 3600
        await side.exchange.close()

    run_virtually(main())


def test_a_connection_that_was_closed_while_idle_is_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    """Servers and proxies do that: it is made again at once, without a line."""

    async def main() -> None:
        board = Board()
        side = Side(board)
        for _ in range(10):
            await asyncio.sleep(600)
            board.drop()
        await asyncio.sleep(1)
        assert len(board.ears) == 1
        assert side.hints == 11
        assert caplog.records == []
        await side.exchange.close()

    run_virtually(main())


class _Deaf(BoardWakeups):
    """A driver whose library turns the first cancellation into an error of the connection."""

    cancelled = 0

    async def listen(self, channel: str, heard: Heard) -> None:
        try:
            await super().listen(channel, heard)
        except asyncio.CancelledError:
            type(self).cancelled += 1
            if self.cancelled == 1:
                raise ConnectionError("the connection was closed") from None
            raise


def test_a_driver_that_swallows_a_cancellation_keeps_no_process_from_ending() -> None:
    """It is cancelled again, and then nothing of it is left."""

    async def main() -> None:
        async def identity() -> str:
            return "a store"

        exchange = HintExchange(_Deaf(Board()), identity, lambda: None)
        exchange.open()
        exchange.listen()
        await asyncio.sleep(1)
        async with asyncio.timeout(60):
            await exchange.close()
        left = [task for task in asyncio.all_tasks() if task.get_name().startswith("holdfast-wakeups")]
        assert (left, _Deaf.cancelled) == ([], 2)

    run_virtually(main())


def test_an_exchange_can_be_opened_again() -> None:
    """As an engine can."""

    async def main() -> None:
        board = Board()
        side = Side(board)
        for count in (1, 2):
            side.exchange.open()
            side.exchange.open()
            side.exchange.announce()
            await side.exchange.close()
            await side.exchange.close()
            assert len(board.messages) == count
        assert board.ears == []

    run_virtually(main())
