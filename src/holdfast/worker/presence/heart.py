"""The heart: it keeps the worker's leases alive from its own thread, so a blocked loop does not lose them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import msgspec

from holdfast.errors import HoldfastError
from holdfast.store.protocol import Store
from holdfast.worker.presence.lease import LocalLease
from holdfast.worker.watchdog import Watchdog

log = logging.getLogger("holdfast.heart")


class Pulse(Protocol):
    """Where the heart beats: in a thread, or, in a simulation, on the same loop."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


class Beats(msgspec.Struct):
    """What a heart needs to know: whose it is, and what to call when the lease is lost."""

    worker: str
    ttl_seconds: float
    lease: LocalLease
    lost: Callable[[], None]
    watchdog: Watchdog | None = None


LATE_SECONDS: Final = 1.0
"""A beat without an answer for so long counts as an outage until the answer is there."""

AGAIN_SECONDS: Final = 0.5
"""How soon a beat that failed or was late is repeated: others wait only for a moment after an outage."""


async def beat_forever(store: Store, beats: Beats) -> None:
    """Prolong the worker's life three times within its time to live. Calls ``lost`` once the store has forgotten it."""
    interval = beats.ttl_seconds / 3
    while True:
        in_time = await _beat(store, beats)
        await _rest(interval if in_time else min(interval, AGAIN_SECONDS), beats.watchdog)


async def _beat(store: Store, beats: Beats) -> bool:
    """One heartbeat. Gives whether the store has answered in time: else the life it prolongs may be over by now."""
    sent_at = beats.lease.time()
    late = asyncio.get_running_loop().call_later(LATE_SECONDS, store.outage.lost)
    try:
        known = await store.beat(beats.worker, beats.ttl_seconds)
    except HoldfastError as error:
        log.debug("a heartbeat was missed: %s", error)
        store.outage.lost()
        return False
    except Exception:
        log.exception("a heartbeat failed; the heart goes on")
        return True
    finally:
        late.cancel()
    store.outage.reached()
    if known:
        beats.lease.beaten(sent_at)
    else:
        beats.lost()
    return beats.lease.time() - sent_at < LATE_SECONDS


async def _rest(seconds: float, watchdog: Watchdog | None) -> None:
    if watchdog is None:
        await asyncio.sleep(seconds)
        return
    for _ in range(max(1, round(seconds / 0.5))):
        await asyncio.sleep(min(0.5, seconds))
        watchdog.look()


class ThreadPulse:
    """The heart in a daemon thread with its own event loop and its own handle on the store."""

    def __init__(self, store: Store, beats: Beats) -> None:
        self._twin = store.twin()
        self._lost = beats.lost
        self._beats = msgspec.structs.replace(beats, lost=self._tell)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._home: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._home = asyncio.get_running_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="holdfast-heart", daemon=True)
        self._thread.start()
        ready.wait(timeout=10)

    async def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._task is not None and thread.is_alive():
            with suppress(RuntimeError):  # its loop may just have been closed
                self._loop.call_soon_threadsafe(self._task.cancel)
        await asyncio.to_thread(thread.join, 10)

    def _tell(self) -> None:
        if self._home is not None and not self._home.is_closed():
            self._home.call_soon_threadsafe(self._lost)

    def _run(self, ready: threading.Event) -> None:
        asyncio.run(self._main(ready))

    async def _main(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        ready.set()
        try:
            while True:
                try:
                    await self._twin.open(migrate=False)
                    break
                except HoldfastError as error:
                    log.debug("the heart cannot reach the store: %s", error)
                    await asyncio.sleep(0.5)
            await beat_forever(self._twin, self._beats)
        except asyncio.CancelledError:
            pass
        finally:
            await self._twin.close()


class LoopPulse:
    """The heart as a task of the same loop: for simulations, where there are no threads."""

    def __init__(self, store: Store, beats: Beats) -> None:
        self._make = partial(beat_forever, store, beats)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._make(), name="holdfast-heart")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
