"""The settings of a server: its limits, and what it refuses."""

from __future__ import annotations

import msgspec

from holdfast.server.protection.proxies import THIS_HOST


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a server allows. The defaults suit one team on one host."""

    read_only: bool = False  # refuse every request that would change something
    wait_seconds: float = 30.0  # the longest that a request waits for a run, whatever `Prefer` asks for
    body_depth: int = 64  # how deep a body may be nested
    requests_per_second: float = 500.0  # of one token or session, in the long run
    requests_at_once: int = 1000  # how many more may come in a burst
    hooks_per_second: float = 50.0  # deliveries to one webhook, in the long run
    hooks_at_once: int = 500  # how many more may come in a burst
    failures_per_minute: float = 30.0  # requests of one address that fail to say who they are
    stream_limit: int = 1000  # open streams of events, together
    stream_limit_each: int = 250  # of them, those of one token or session
    stream_seconds: float = 600.0  # a stream ends after this time, and its reader goes on with a new one
    connection_limit: int = 2000  # open connections, and never more than three quarters of the files of the process
    connection_limit_each: int = 500  # of them, those of one address that is no trusted proxy
    request_seconds: float = 30.0  # a request must have arrived whole, with its body, so long after its first byte
    idle_seconds: float = 5.0  # a connection without a request is closed after this time
    step_up_seconds: float = 900.0  # after it a login is proved again for keys, users, high approvals; 0: never
    metrics_token: str | None = None  # who may read /metrics; without one nobody, or with `Operator` this host
    bulk_limit: int = 1000  # runs that one request over a filter changes
    trusted_proxies: tuple[str, ...] = THIS_HOST  # whose X-Forwarded-For and X-Forwarded-Proto count
