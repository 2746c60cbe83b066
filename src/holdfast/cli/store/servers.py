"""The checks of ``doctor`` on a PostgreSQL server: its settings, its clock, its hosts and its standbys."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.checks import Check

if TYPE_CHECKING:
    from holdfast.store.postgres.cluster import Look

LARGEST_SKEW_SECONDS: Final = 2.0

_LOSES: Final = (
    "a standby that is promoted may lack what was acknowledged last. Name one in synchronous_standby_names, or accept "
    "that; the log says when it happens"
)

_QUESTION: Final = """
SELECT extract(epoch FROM clock_timestamp())::float8 AS clock, current_setting('synchronous_commit') AS commit,
       pg_is_in_recovery() AS standby, current_setting('synchronous_standby_names') AS names,
       (SELECT count(*) FROM pg_stat_replication) AS connected,
       (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) AS synchronous,
       (SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NULL) AS hidden
"""


async def examine_server(url: str) -> AsyncIterator[Check]:
    """The checks, from one query to the primary and a look at each host."""
    from holdfast.store.postgres import connection as c
    from holdfast.store.postgres.cluster import Cluster

    cluster = Cluster(url)
    session = await cluster.connect()
    try:
        before = time.time()
        row = await session.fetchrow(_QUESTION)
        after = time.time()
    except c.failures() as error:
        raise c.translate(error, url) from error
    finally:
        await c.close(session)
    # The server read its clock between the two: up to that interval, a difference may be none.
    skew = max(0.0, before - row["clock"], row["clock"] - after)
    yield _settings(row, skew)
    yield _hosts(session, await cluster.survey())
    yield _standbys(row, several=cluster.several)


def _hosts(session: Any, looks: Sequence[Look]) -> Check:
    """The role and timeline of each host. Two that take writes are two histories, of which one will be lost."""
    used, lines, facts, good = session.standing, [], [], True
    for look in looks:
        found = look.standing
        role = "primary" if found is not None and found.takes_writes else "standby"
        if found is None:
            role, line = "unknown", "does not answer" if look.session is None else "does not tell its role"
        elif used is not None and found.system != used.system:
            role, good = "other cluster", False
            line = f"belongs to the cluster {found.system}, and not to {used.system}: take it out of the URL"
        elif role == "standby":
            line = f"standby, timeline {found.timeline}"
        elif found == used:
            line = f"primary, timeline {found.timeline}, cluster {found.system}"
        else:
            role, good = "second primary", False
            line = f"A SECOND PRIMARY, timeline {found.timeline}: what is written to it is lost. Stop it"
        lines.append(f"{look.host}: {line}")
        facts.append({"host": str(look.host), "role": role, **({} if found is None else found._asdict())})
    silent = any(each["role"] == "unknown" for each in facts)
    return Check("hosts", good, "\n".join(lines), {"hosts": facts}, warning=silent and len(facts) > 1)


def _settings(row: Mapping[str, Any], skew: float) -> Check:
    good = skew <= LARGEST_SKEW_SECONDS
    detail = f"synchronous_commit {row['commit']}; the server's clock differs by {skew:.1f} s"
    remedy = "" if good else ": synchronise the clocks of both hosts, timers go by this one's"
    return Check("settings", good, detail + remedy, {"synchronous_commit": row["commit"], "skew_seconds": skew})


def _standbys(row: Mapping[str, Any], *, several: bool) -> Check:
    """Whether acknowledged commits would survive the loss of the primary."""
    names, connected = row["names"], row["connected"]
    good, warning = True, False
    if row["standby"]:
        warning, detail = True, "this server is a standby: workers and callers need the primary"
    elif names and not row["synchronous"] and not row["hidden"]:
        good, detail = False, f"commits wait for {names}, and none of them is connected: bring one back"
    elif names and row["commit"] == "local":
        warning, detail = True, f"synchronous_commit is local, so nothing waits for {names}: set it to on"
    elif names:
        detail = f"{connected} connected; commits wait for {names}"
    elif connected or several:
        warning, detail = True, f"{connected} connected, and no commit waits for one: {_LOSES}"
    else:
        detail = "none is connected"
    facts = {"connected": connected, "synchronous_standby_names": names, "in_recovery": row["standby"]}
    return Check("standbys", good, detail, facts, warning)
