"""The checks of ``doctor`` on a PostgreSQL server: its settings, its clock and its standbys."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from holdfast.cli.checks import Check

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
    """The checks, from one query."""
    from holdfast.store.postgres import connection as c
    from holdfast.store.postgres.primary import Primary

    primary = Primary(url)
    session = await primary.connect()
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
    yield _standbys(row, several=primary.several)


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
