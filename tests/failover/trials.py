"""Trials: real servers are killed, frozen, cut off, lagged and pooled under load, and work must go on.

``python -m tests.failover.trials [NAME …]`` plays all trials, or those whose names contain one of the words, and prints
a table: seconds until the first acknowledgement and the first effect after the servers are back, what was lost of what
was acknowledged, what of that the engine lists, and effects that were begun again. The exit code is 1 where a law is
broken: with a synchronous standby nothing is lost; what is lost without one is listed whole; nothing is begun again,
but where an asynchronous standby had not heard of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from holdfast.testing.postgres import _unprivileged
from holdfast.testing.replication import STANDBY, Replicated, Standby, joint_url, pair
from tests.acceptance.processes import WorkerGroup
from tests.failover.app import EFFECTS
from tests.failover.judge import Verdict, judge
from tests.failover.load import Acknowledged, Load
from tests.proxy import Proxy

HERE: Final = Path(__file__).parent
POLICY: Final = "version: 1\nrules:\n  - name: all\n    when: true\n    effect: allow\n"
LEASE_SECONDS: Final = 5


class Stage:
    """The servers, workers and callers of one trial."""

    def __init__(self, primary: Replicated, standby: Standby, folder: Path, chance: random.Random) -> None:
        self.primary, self.standby, self.folder, self.chance = primary, standby, folder, chance
        self.base = primary.url()
        self.url = joint_url(self.base, primary, standby)
        self.effects = folder / "effects.log"
        self.effects.touch()
        self.groups: list[WorkerGroup] = []
        self._places = 0
        self.old_runs: int | None = None
        self.acknowledged: list[Acknowledged] = []  # to other callers than the trial's own
        (folder / "policy.yaml").write_text(POLICY)

    async def workers(self, url: str, count: int = 1, *, state: str = "state") -> None:
        """Have workers on this way to the store; with another ``state`` they know nothing of the servers."""
        self._places += 1
        place = self.folder / f"workers-{self._places}"
        place.mkdir()
        environment = {EFFECTS: str(self.effects), "XDG_STATE_HOME": str(self.folder / state)}
        options = ("--policy", str(self.folder / "policy.yaml"), "--lease-seconds", str(LEASE_SECONDS))
        group = WorkerGroup(HERE / "app.py", url, place, *options, **environment)
        self.groups.append(group)
        while sum(member.ready for member in group.members) < count:
            group.members[:] = [member for member in group.members if member.alive]
            while len(group.members) < count:  # as a supervisor does: one that finds no server in time ends
                group.start()
            await asyncio.sleep(0.1)

    async def stop_workers(self) -> None:
        for group in self.groups:
            await asyncio.to_thread(group.stop)
        self.groups.clear()

    async def until_busy(self) -> None:
        async with asyncio.timeout(60):
            while self.effects.read_text().count("\n") < 10:  # noqa: ASYNC110  # other processes write it
                await asyncio.sleep(0.05)

    async def promote(self) -> float:
        await asyncio.to_thread(self.standby.promote)
        return time.time()

    def end(self) -> None:
        for group in self.groups:
            group.__exit__()


Play = Callable[[Stage], Awaitable[float]]
"""What happens in a trial. Gives the time from which it must go on."""


async def killed(stage: Stage) -> float:
    await asyncio.to_thread(stage.primary.stop, "immediate")
    await asyncio.sleep(1.0)
    return await stage.promote()


async def frozen(stage: Stage) -> float:
    await asyncio.to_thread(stage.primary.freeze)
    await asyncio.sleep(3.0)
    promoted = await stage.promote()
    await asyncio.sleep(4.0)
    await asyncio.to_thread(stage.primary.thaw)
    return promoted


async def without_standby(stage: Stage) -> float:
    await asyncio.to_thread(stage.standby.stop)
    await asyncio.sleep(8.0)
    await asyncio.to_thread(stage.standby.start)
    return time.time()


async def lagged(stage: Stage) -> float:
    await asyncio.to_thread(stage.standby.stop)
    await asyncio.sleep(3.0)
    await asyncio.to_thread(stage.primary.stop, "immediate")
    await asyncio.to_thread(stage.standby.start)
    return await stage.promote()


async def stormed(stage: Stage) -> float:
    for _ in range(4):
        stage.primary.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'"
        )
        await asyncio.sleep(stage.chance.uniform(0.2, 0.8))
    for _ in range(6):
        stage.primary.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'")
        await asyncio.sleep(stage.chance.uniform(0.05, 0.3))
    for _ in range(2):
        await asyncio.to_thread(stage.primary.stop, "immediate")
        await asyncio.to_thread(stage.primary.start)
        await asyncio.sleep(stage.chance.uniform(0.5, 2.0))
    return time.time()


async def old_primary_back(stage: Stage) -> float:
    """The old one is started again by itself, and named first; new workers and callers know nothing."""
    await asyncio.to_thread(stage.primary.stop, "immediate")
    promoted = await stage.promote()
    await asyncio.to_thread(stage.primary.start)
    await stage.stop_workers()
    before = stage.primary.execute("SELECT count(*) FROM runs", joint_url(stage.base, stage.primary))
    await stage.workers(stage.url, 2, state="another")
    known, os.environ["XDG_STATE_HOME"] = os.environ.get("XDG_STATE_HOME"), str(stage.folder / "a third")
    try:
        async with Load(stage.url, first=100_000) as newcomers:
            while len(newcomers.acknowledged) < 30:  # noqa: ASYNC110  # they are tasks of their own
                await asyncio.sleep(0.05)
            await newcomers.stop()
            stage.acknowledged += newcomers.acknowledged
    finally:
        os.environ.pop("XDG_STATE_HOME") if known is None else os.environ.update(XDG_STATE_HOME=known)
    after = stage.primary.execute("SELECT count(*) FROM runs", joint_url(stage.base, stage.primary))
    stage.old_runs = int(str(after[0][0])) - int(str(before[0][0]))
    return promoted


class Trial(NamedTuple):
    name: str
    synchronous: bool
    play: Play
    loses: bool = False
    """Whether something must be lost: else the trial proves nothing."""

    step_seconds: float = 0.05


TRIALS: Final = [
    Trial(name, synchronous, play)
    for name, play in (("killed", killed), ("frozen", frozen), ("old primary back, named first", old_primary_back))
    for synchronous in (True, False)
] + [
    Trial("standby away for 8 s", True, without_standby),
    Trial("standby lags by 3 s", False, lagged, loses=True),
    Trial("terminations, cancellations, restarts", True, stormed),
]


def cut(least: float, most: float, *, silently: bool) -> Play:
    """The network of each worker is away, for a time of its own; they come back within two seconds of each other."""

    async def play(stage: Stage) -> float:
        async with AsyncExitStack() as stack:
            proxies = []
            await stage.stop_workers()
            for number in range(2):
                proxy = await stack.enter_async_context(Proxy(stage.folder / f"way-{number}", stage.primary.folder))
                proxies.append(proxy)
                await stage.workers(joint_url(stage.base, host=proxy.folder))
            await asyncio.sleep(2.0)
            for proxy in proxies:
                proxy.cut(silently=silently)
            back = stage.chance.uniform(least, most)
            await asyncio.sleep(back)
            proxies[0].mend()
            await asyncio.sleep(stage.chance.uniform(0.0, 2.0))
            proxies[1].mend()
            mended = time.time()
            await asyncio.sleep(8.0)
            await stage.stop_workers()  # they hand over in good order before their way is gone
            await stage.workers(stage.url)
        return mended

    return play


TRIALS += [
    Trial(
        f"network of each worker away for {least} to {most} s, {how}", False, cut(least, most, silently=how == "silent")
    )
    for least, most, how in ((2, 5, "refused"), (5, 12, "silent"), (12, 30, "refused"))
]


@contextmanager
def pgbouncer(stage: Stage) -> Iterator[Callable[[bool], None]]:
    """A pgbouncer that pools by session, and what starts and stops it."""
    place, program = stage.folder / "pgbouncer", shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    place.mkdir()
    user = _unprivileged()
    if user is not None:
        os.chown(place, user.pw_uid, user.pw_gid)
        stage.folder.chmod(0o755)
    database = urlsplit(stage.base).path[1:]
    (place / "pgbouncer.ini").write_text(
        f"[databases]\n{database} = host={stage.primary.folder} user=postgres\n[pgbouncer]\nlisten_addr =\n"
        f"unix_socket_dir = {place}\nlisten_port = 5432\nauth_type = any\npool_mode = session\n"
        "default_pool_size = 60\nmax_client_conn = 200\nserver_login_retry = 1\n"
    )
    running: list[subprocess.Popen[bytes]] = []

    def switch(on: bool) -> None:
        if on:
            who = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            command = [program, "-q", str(place / "pgbouncer.ini")]
            running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, **who))  # type: ignore[call-overload]
            return
        running[-1].kill()
        running[-1].wait()
        (place / ".s.PGSQL.5432").unlink(missing_ok=True)

    switch(True)
    try:
        yield switch
    finally:
        switch(False)


async def pooler_restarted(stage: Stage) -> float:
    with pgbouncer(stage) as switch:
        await stage.stop_workers()
        await stage.workers(joint_url(stage.base, host=stage.folder / "pgbouncer"), 2)
        await asyncio.sleep(2.0)
        switch(False)
        await asyncio.sleep(3.0)
        switch(True)
        back = time.time()
        await asyncio.sleep(6.0)
        await stage.stop_workers()
        await stage.workers(stage.url)
    return back


if shutil.which("pgbouncer") or Path("/usr/sbin/pgbouncer").exists():
    TRIALS.append(Trial("pgbouncer restarted after 3 s", False, pooler_restarted))


async def play(trial: Trial, stage: Stage) -> tuple[Verdict, list[str]]:
    """Play a trial. Gives the verdict, and the laws that it breaks."""
    if trial.synchronous:
        await asyncio.to_thread(stage.primary.wait_for, STANDBY)
        async with asyncio.timeout(30):
            while not stage.primary.execute("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    await stage.workers(stage.url, 2)
    async with Load(stage.url, seconds=trial.step_seconds) as load:
        await stage.until_busy()
        await asyncio.sleep(1.0)
        mark = await trial.play(stage)
        await asyncio.sleep(3.0)
        await load.stop()
        load.acknowledged += stage.acknowledged
        verdict = await judge(stage.url, load, stage.effects, mark)
    broken = list(verdict.wrong)
    if trial.synchronous and verdict.lost:
        broken.append(f"{verdict.lost} acknowledged changes were lost with a synchronous standby")
    if verdict.lost != verdict.listed:
        broken.append(f"{verdict.lost} were lost, and {verdict.listed} are listed")
    if trial.loses and not verdict.lost:
        broken.append("nothing was lost: the standby did not lag, and this trial proves nothing")
    if verdict.repeated and not verdict.lost:
        broken.append(f"{verdict.repeated} effects were begun again")
    if stage.old_runs:
        broken.append(f"{stage.old_runs} runs were started on the old primary")
    if verdict.first_acknowledgement is None or verdict.first_effect is None:
        broken.append("nothing went on")
    return verdict, broken


def perform(trial: Trial, seed: int) -> tuple[Verdict, list[str]]:
    """A trial on servers of its own. Nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="hf-") as folder, pair() as (primary, standby):
        stage = Stage(primary, standby, Path(folder), random.Random(seed))
        try:
            return asyncio.run(asyncio.wait_for(play(trial, stage), 300))
        finally:
            stage.end()


def row(trial: Trial, verdict: Verdict) -> str:
    mode = "synchronous" if trial.synchronous else "asynchronous"
    times = (f"{each:.1f}" if each is not None else "never" for each in verdict[1:3])
    lost = f"{verdict.lost}, all listed" if verdict.lost and verdict.lost == verdict.listed else str(verdict.lost)
    return f"| {trial.name} | {mode} | {verdict.acknowledged} | {' | '.join(times)} | {lost} | {verdict.repeated} |"


HEAD: Final = (
    "| trial | standby | acknowledged | s to the first acknowledgement | s to the first effect | lost | repeated |\n"
    "|---|---|---|---|---|---|---|"
)


def main(words: Sequence[str]) -> int:
    chosen = [trial for trial in TRIALS if not words or any(word in trial.name for word in words)]
    failed = False
    print(HEAD, flush=True)
    for trial in chosen:
        seed = int(os.environ.get("HOLDFAST_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
        try:
            verdict, broken = perform(trial, seed)
        except Exception as error:
            print(f"| {trial.name} | failed: {error!r} (HOLDFAST_TEST_SEED={seed}) |", flush=True)
            failed = True
            continue
        print(row(trial, verdict), flush=True)
        for each in broken:
            print(f"BROKEN: {each} (HOLDFAST_TEST_SEED={seed})", flush=True)
        failed = failed or bool(broken)
    return int(failed)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as own:
        os.environ["XDG_STATE_HOME"] = own
        logging.disable()  # the table is read, not what servers that are killed on purpose are said to be
        sys.exit(main(sys.argv[1:]))
