"""The cluster behind a URL: its hosts, what each of them is, and which one is the primary.

Every connection asks it for the primary. The rules:

- Where the URL names several hosts, a server that takes no writes is not accepted, unless the URL asks for a standby by
  ``target_session_attrs``.
- A search asks all hosts at once, each for a short time, and takes the newest timeline: a standby that was promoted
  takes writes while its predecessor, which may not know it yet, does, too. A host that does not answer is named.
- A timeline older than one that was seen is never accepted, and neither is a server of another cluster. What was seen
  is kept beside the process, see ``lineage``.
- A found primary is used without another search until it cannot be reached, or a newer one is seen elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from holdfast.errors import HoldfastError, OperatorError, StoreLost, StoreUnavailable, UnsupportedStore
from holdfast.store.postgres.connection import connect_to, driver, failures, shown, translate, what_failed
from holdfast.store.postgres.hosts import Host, hosts_of, wants_primary
from holdfast.store.postgres.lineage import Lineage, LineageFile
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.staggered import staggered

log = logging.getLogger("holdfast.store")

HOST_SECONDS: Final = 1.0
"""How long one of several hosts may take to answer."""

ONLY_HOST_SECONDS: Final = 3.0
LONGEST_SECONDS: Final = 10.0
"""While no host answers in time, the time for each is doubled, up to this: the network may be slow."""

LATE_HOST_SECONDS: Final = 0.25
"""How much longer a search waits for a host that was late before, once another is known to be the primary."""


class Standing(NamedTuple):
    """A server as it describes itself. ``started`` is when it started: two hosts with all the same are one server."""

    system: int
    timeline: int
    takes_writes: bool
    started: float

    @property
    def lineage(self) -> Lineage | None:
        """The lineage of a primary; None for a standby."""
        return Lineage(self.system, self.timeline) if self.takes_writes else None


class Look(NamedTuple):
    """A look at a host: the session with it, unless there is a reason not to use it."""

    host: Host
    session: Any = None
    refusal: BaseException | None = None

    @property
    def standing(self) -> Standing | None:
        found: Standing | None = None if self.session is None else self.session.standing
        return found

    @property
    def is_late(self) -> bool:
        return isinstance(self.refusal, TimeoutError)


class _Standby(OSError):
    """The server takes no writes."""


class _Replaced(OSError):
    """A standby was promoted in the server's place."""


class _OtherCluster(OSError):
    """The server belongs to another cluster."""


class Cluster:
    """The servers of one URL, for all handles of a process, also across threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.hosts = hosts_of(url)
        self.several = len(self.hosts) > 1
        self.looked_at = 0.0
        self._file = LineageFile(url)
        self._newest = self._file.read()
        self._is_from_file = True
        self._wants_primary = wants_primary(url)
        self._present: Host | None = None
        self._late: frozenset[Host] = frozenset()
        self._seconds = self._shortest
        self._said = ""

    @property
    def newest(self) -> Lineage | None:
        """The newest primary that was seen."""
        return self._newest

    @property
    def _shortest(self) -> float:
        return HOST_SECONDS if self.several else ONLY_HOST_SECONDS

    def is_outdated(self, session: Any) -> bool:
        """Whether the session's primary was replaced by another one."""
        newest = self._newest
        return newest is not None and newest is not session.lineage and newest.replaces(session.lineage)

    async def connect(self) -> Any:
        """A session with the primary. Raises StoreUnavailable where none is found, StoreLost where it is another
        cluster's, and OperatorError."""
        if (present := self._present) is not None:
            look = await self._look(present)
            if look.refusal is None:
                self._learn(look.session)
                return look.session
            _dismiss([look])
            self._leave(look)
        looks = await self._look_at(self.hosts)
        best = None
        try:
            best = self._chosen(looks)
        finally:
            _dismiss([look for look in looks if look is not best])
        return best.session

    async def answers(self, host: Host) -> bool:
        """Whether that host answers and is still acceptable."""
        look = await self._look(host)
        _dismiss([look])
        if look.refusal is None:
            self._learn(look.session)  # another server may have taken over the name
            return True
        if isinstance(look.refusal, driver().PostgresError):
            return True  # an error is an answer, too
        self._leave(look)
        return False

    async def look_elsewhere(self) -> None:
        """Check whether another host has become the primary, though the present one may not know it yet."""
        looks = await self._look_at([host for host in self.hosts if host != self._present])
        _dismiss(looks)
        for look in looks:
            if look.standing is not None and look.refusal is None and self._is_newer(look.session.lineage):
                self._present = look.host
                self._learn(look.session)
        if self._present is not None:
            self._tell([look for look in looks if look.host != self._present])

    async def survey(self) -> list[Look]:
        """Every host as it is now. The sessions are closed already."""
        looks = await self._look_at(self.hosts)
        _dismiss(looks)
        return looks

    def search_again(self) -> None:
        """A session was lost: whether its host is still the primary is not known before all hosts were asked."""
        self._present = None

    # -- a look at hosts -------------------------------------------------------------------------------------------

    async def _look_at(self, hosts: Sequence[Host]) -> list[Look]:
        """A look at all of these hosts at once, in their order."""
        tasks = {asyncio.ensure_future(self._look(host)): host for host in hosts}
        waiting = set(tasks)
        try:
            while waiting:
                enough = self._is_enough([task.result() for task in tasks if task not in waiting], tasks, waiting)
                seconds = LATE_HOST_SECONDS if enough else None
                done, waiting = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
        except BaseException:
            _dismiss([task.result() for task in tasks if task.done() and not task.exception()])
            raise
        finally:
            for task in waiting:
                task.cancel()
        looks = [
            Look(host, refusal=TimeoutError()) if task in waiting else task.result() for task, host in tasks.items()
        ]
        self._late = frozenset(look.host for look in looks if look.is_late)
        return looks

    def _is_enough(self, looks: Sequence[Look], hosts: Mapping[Any, Host], waiting: set[Any]) -> bool:
        """Whether the primary was found, and only hosts are missing that did not answer before either."""
        if self._is_from_file or not {hosts[task] for task in waiting} <= self._late:
            return False
        return any(look.refusal is None and look.session.lineage is not None for look in looks)

    async def _look(self, host: Host) -> Look:
        try:
            session = await staggered(lambda seconds: self._reach(host, seconds), self._shortest, self._seconds)
        except failures() as error:
            return Look(host, refusal=error)
        except ValueError as error:
            raise UnsupportedStore(
                f"{shown(self.url)} is not a PostgreSQL URL ({error}): postgresql://USER@HOST/DATABASE"
            ) from error
        session.host = host
        session.lineage = None if session.standing is None else session.standing.lineage
        return Look(host, session, self._refusal(session.standing))

    async def _reach(self, host: Host, seconds: float) -> Any:
        session = await connect_to(self.url, seconds, **self._options(host))
        try:
            session.standing = await _standing(session, seconds)
        except BaseException:
            session.terminate()
            raise
        return session

    def _options(self, host: Host) -> dict[str, Any]:
        if not self.several:
            return {}
        options: dict[str, Any] = {"host": host.name, **({} if host.port is None else {"port": host.port})}
        if self._wants_primary:
            options["target_session_attrs"] = "any"  # it is judged here, and a standby tells its cluster
        return options

    def _refusal(self, standing: Standing | None) -> BaseException | None:
        newest = self._newest
        if standing is None:
            return None
        if newest is not None and standing.system != newest.system and (self.several or not self._is_from_file):
            return _OtherCluster(
                f"belongs to the cluster {standing.system}, and not to {newest.system}, which was here before"
            )
        if self.several and self._wants_primary and not standing.takes_writes:
            return _Standby("is a standby")
        if newest is not None and newest.replaces(standing.lineage):
            return _Replaced(
                f"is on timeline {standing.timeline}, and a standby was promoted in its place: the primary is on "
                f"timeline {newest.timeline}. Stop it, or make it a standby"
            )
        return None

    # -- what follows from it --------------------------------------------------------------------------------------

    def _chosen(self, looks: list[Look]) -> Look:
        """The primary, which is the present host from now on."""
        good = [look for look in looks if look.refusal is None]
        systems = {look.standing.system: look.host for look in looks if look.standing is not None}
        if self._newest is None and len(systems) > 1:
            each = ", ".join(f"{host} to {system}" for system, host in systems.items())
            raise UnsupportedStore(
                f"{shown(self.url)} names hosts of different clusters ({each}): name the servers of one."
            )
        if not good:
            if all(look.is_late for look in looks):
                self._seconds = min(self._seconds * 2, LONGEST_SECONDS)
            raise self._complaint(looks) from looks[0].refusal
        best = max(good, key=lambda look: _age(look.session.lineage))
        self._present = best.host
        self._seconds = self._shortest
        self._learn(best.session)
        self._tell([look for look in looks if look is not best])
        return best

    def _leave(self, look: Look) -> None:
        """The present host cannot be used: search for another."""
        if self._present == look.host:
            self._present = None
        if look.is_late:
            self._late |= {look.host}

    def _is_newer(self, lineage: Lineage | None) -> bool:
        return lineage is not None and lineage.replaces(self._newest)

    def _learn(self, session: Any) -> None:
        """Keep the session's lineage where it is the newest."""
        lineage, newest = session.lineage, self._newest
        if lineage is None or (lineage == newest and not self._is_from_file):
            return
        if newest is not None and lineage.system != newest.system:
            log.warning(
                "%s is another cluster (%s) than when this host used it last (%s)",
                shown(self.url),
                lineage.system,
                newest.system,
            )
        self._newest, self._is_from_file = lineage, False
        self._file.write(lineage)

    def _tell(self, others: Sequence[Look]) -> None:
        """Log which hosts cannot be used, where that has changed."""
        reasons = [(look.host, self._reason(look)) for look in others]
        faults = "; ".join(f"{host} {reason}" for host, reason in reasons if reason not in (None, "is a standby"))
        if faults and faults != self._said:
            log.warning("%s: %s is used as the primary; %s", shown(self.url), self._present, faults)
        self._said = faults

    def _reason(self, look: Look) -> str | None:
        """Why a host is not used; None for one that is as good as the present one."""
        refusal = self._refusal(look.standing) or look.refusal
        if refusal is None:
            return None
        if isinstance(refusal, driver().TargetServerAttributeNotMatched):
            return "is a standby"
        return "does not answer in time" if look.is_late else what_failed(refusal)

    def _complaint(self, looks: Sequence[Look]) -> Exception:
        refusals = [look.refusal for look in looks if look.refusal is not None]
        remedy = ""
        if self._is_from_file and any(isinstance(error, _OtherCluster | _Replaced) for error in refusals):
            remedy = f" This host noted what it saw last in {self._file.path}: if a backup was restored, delete that."
        if all(isinstance(error, _OtherCluster) for error in refusals):
            after = remedy or " Lead the name to the right server; if the cluster was replaced, restart this process."
            raise StoreLost(f"{self._each(looks)}.{after}")
        translated: list[HoldfastError] = [translate(error, self.url) for error in refusals]
        if all(isinstance(error, OperatorError) for error in translated):
            return translated[0]
        if not self.several and not isinstance(refusals[0], _Replaced):
            return translated[0]
        return StoreUnavailable(f"{shown(self.url)} has no primary ({self._each(looks)}).{remedy}")

    def _each(self, looks: Sequence[Look]) -> str:
        if not self.several:
            return f"{shown(self.url)} {self._reason(looks[0])}"
        return "; ".join(f"{look.host}: {self._reason(look)}" for look in looks)


async def connect(url: str) -> Any:
    """One session with the primary that belongs to no handle."""
    return await Cluster(url).connect()


async def _standing(session: Any, seconds: float) -> Standing | None:
    """How a server describes itself; None for a service that does not say."""
    with suppress(driver().PostgresError):
        return Standing(*await session.fetchrow(SQL["standing"], timeout=seconds))
    return None


def _dismiss(looks: Sequence[Look]) -> None:
    for look in looks:
        if look.session is not None:
            look.session.terminate()


def _age(lineage: Lineage | None) -> int:
    return 0 if lineage is None else lineage.timeline
