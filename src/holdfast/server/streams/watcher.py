"""The watcher: one for all open streams. It looks at what they are about when something was committed, here or not.

A stream subscribes to a subject: a run, a list of runs, or a person's tasks. Streams of the same subject share what is
read. Nothing is read while no stream is open, and nothing while nothing is committed, except every few seconds, because
hints of other processes can be lost.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Any, Final

from holdfast.client.engine import Holdfast
from holdfast.errors import StoreUnavailable, TooManyRequests
from holdfast.runs.role import Role
from holdfast.store import protocol as p

LOOK_SECONDS: Final = 5.0
GATHER_SECONDS: Final = 0.1
"""Changes are gathered for so long before they are looked at: a busy engine commits hundreds of times a second."""

STOP_SECONDS: Final = 0.2
"""How often it is looked whether the process stops, while streams are open in an application of somebody else's."""

Read = Callable[[], Awaitable[tuple[Hashable, Any]]]
"""Reads a subject: what tells two states of it apart, and what is shown of it."""


class Subject:
    """What streams are about. ``run`` is read together with all other runs, everything else by ``read``."""

    __slots__ = ("mark", "read", "readers", "run", "value", "written")

    def __init__(self, run: p.Key | None, read: Read | None) -> None:
        self.run = run
        self.read = read
        self.mark: Hashable = None
        self.value: Any = None
        self.written: tuple[Any, bytes] | None = None
        self.readers: set[Subscription] = set()


class Subscription:
    """One stream's view of a subject: the last state that it has not seen."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._changed = asyncio.Event()
        self._is_over = False

    def change(self) -> None:
        self._changed.set()

    def end(self) -> None:
        """The stream ends now."""
        self._is_over = True
        self._changed.set()

    @property
    def mark(self) -> Hashable:
        return self._subject.mark

    def written(self, value: Any, write: Callable[[Any], bytes]) -> bytes:
        """A state as it is sent. It is written once for all streams of the subject."""
        kept = self._subject.written
        if kept is None or kept[0] is not value:
            kept = self._subject.written = value, write(value)
        return kept[1]

    async def next(self, seconds: float) -> tuple[bool, Any]:
        """Wait for a change, at most so long. Gives whether there is one, and the subject as it was read last.

        Raises StopAsyncIteration where the stream is to end.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False, self._subject.value
        if self._is_over:
            raise StopAsyncIteration
        self._changed.clear()
        return True, self._subject.value


class StreamWatcher(Role):
    """Looks at the subjects of open streams."""

    name = "watcher"

    def __init__(self, app: Holdfast, limit: int, limit_each: int | None = None) -> None:
        super().__init__()
        self._app = app
        self._limit = limit
        self._limit_each = limit if limit_each is None else limit_each
        self._counts: Counter[str] = Counter()
        self._subjects: dict[Hashable, Subject] = {}
        self._count = 0
        self._unlisten: Callable[[], None] | None = None
        self.looks = 0
        self._is_over = False
        self._minding: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the server stops."""
        return self._is_over or _is_stopping(_foreign_server())

    @property
    def open_streams(self) -> int:
        return self._count

    @property
    def is_due(self) -> bool:
        """Whether it will look soon, because something was committed."""
        return self._alarm is not None or self._woken.is_set()

    @asynccontextmanager
    async def run(self, key: p.Key, caller: str) -> AsyncIterator[Subscription]:
        """Watch a run's row. ``caller`` is whose stream it is."""
        async with self._subscribed(("run", key), Subject(key, None), caller) as found:
            yield found

    @asynccontextmanager
    async def listing(self, key: Hashable, read: Read, caller: str) -> AsyncIterator[Subscription]:
        """Watch what ``read`` reads; equal keys share it."""
        async with self._subscribed(key, Subject(None, read), caller) as found:
            yield found

    @asynccontextmanager
    async def _subscribed(self, key: Hashable, fresh: Subject, caller: str) -> AsyncIterator[Subscription]:
        if self._count >= self._limit:
            raise TooManyRequests(f"{self._limit} streams are open, which is the limit of this server.", retry_after=5)
        if self._counts[caller] >= self._limit_each:  # else one caller could keep all others from having any
            problem = f"you have {self._limit_each} streams open, which is the limit of one caller: close some."
            raise TooManyRequests(problem, retry_after=5)
        if self.is_over:
            raise StoreUnavailable("the server is stopping.")
        subject = self._subjects.setdefault(key, fresh)
        subscription = Subscription(subject)
        if subject.mark is not None:
            subscription.change()  # what others have seen is new here
        subject.readers.add(subscription)
        self._count += 1
        self._counts[caller] += 1
        self._begin()
        try:
            yield subscription
        finally:
            self._count -= 1
            self._counts[caller] -= 1
            if not self._counts[caller]:
                del self._counts[caller]
            subject.readers.discard(subscription)
            if not subject.readers:
                self._subjects.pop(key, None)
            if not self._subjects and self._unlisten is not None:
                self._unlisten()
                self._unlisten = None

    def _begin(self) -> None:
        self.start()
        if self._unlisten is None:
            self._unlisten = self._app.neighbours.add_listener(self._hinted)
        if self._minding is None and _foreign_server() is not None:
            self._minding = asyncio.get_running_loop().create_task(self._mind(), name="holdfast-streams")
        self.wake()

    async def _mind(self) -> None:
        """End all streams when the server of the application in which this is mounted stops.

        It waits for its connections, and then only says that it stops: streams would keep it waiting for ever.
        """
        while self._subjects and not self.is_over:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(STOP_SECONDS)
        self._minding = None
        if self.is_over:
            await self.stop()

    def _hinted(self) -> None:
        if self._subjects:
            self.wake_within(GATHER_SECONDS)

    async def stop(self) -> None:
        """End every stream at once, for good."""
        self._is_over = True
        for subject in list(self._subjects.values()):
            for reader in subject.readers:
                reader.end()
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        await super().stop()

    async def round(self) -> float | None:
        """Read every subject once, and wake the streams of those that have changed."""
        if not self._subjects:
            return None
        self.looks += 1
        subjects = list(self._subjects.values())
        runs = {subject.run: subject for subject in subjects if subject.run is not None}
        for row in await self._app.store.get(list(runs)) if runs else ():
            _put(runs[row.key], (row.generation, row.version, row.updated_at, row.status, row.owner), row)
        for subject in subjects:
            if subject.read is not None:
                _put(subject, *await subject.read())
        return LOOK_SECONDS


def _foreign_server() -> Any:
    """The uvicorn that serves this process, if it is not ours: it handles the signals that stop the process."""
    serving = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return serving if hasattr(serving, "should_exit") else None


def _is_stopping(serving: Any) -> bool:
    return serving is not None and bool(serving.should_exit)


def _put(subject: Subject, mark: Hashable, value: Any) -> None:
    if subject.mark == mark:
        return
    subject.mark, subject.value = mark, value
    for reader in subject.readers:
        reader.change()
