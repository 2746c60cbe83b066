-- Runs, their journals, inboxes and queued work. Times are microseconds since 1970. Tenant leads every key.

CREATE TABLE runs (
    tenant          TEXT NOT NULL,
    id              TEXT NOT NULL,
    workflow        TEXT NOT NULL,
    root            BLOB NOT NULL,
    generation      INTEGER NOT NULL DEFAULT 0,
    version         INTEGER NOT NULL,               -- number of events in this generation's journal
    head            BLOB NOT NULL,                  -- hash of its last segment
    standing        TEXT NOT NULL,
    cancelling      INTEGER NOT NULL DEFAULT 0,
    pause           TEXT,                           -- why it must not go on
    priority        INTEGER NOT NULL DEFAULT 0,
    attributes      TEXT NOT NULL DEFAULT '{}',
    parent          TEXT,
    parent_position INTEGER,
    fingerprint     BLOB NOT NULL,                  -- of the workflow's name and arguments
    owner           TEXT,                           -- the worker that leases it
    epoch           INTEGER NOT NULL DEFAULT 1,     -- raised whenever the lease changes hands
    crashes         INTEGER NOT NULL DEFAULT 0,     -- leases lost in a row without an advance between
    ready_at        INTEGER,                        -- wants a worker since then
    wake_at         INTEGER,                        -- its earliest timer
    waiting         TEXT,                           -- what it waits for, as explain shows it
    arrived         INTEGER NOT NULL DEFAULT 0,     -- last position in its inbox
    consumed        INTEGER NOT NULL DEFAULT 0,     -- last position taken into a turn
    error           TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX runs_ready ON runs (priority DESC, ready_at)
    WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL;
CREATE INDEX runs_wake ON runs (wake_at) WHERE wake_at IS NOT NULL AND owner IS NULL AND ended_at IS NULL;
CREATE INDEX runs_owner ON runs (owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_newest ON runs (tenant, created_at DESC, id DESC);
CREATE INDEX runs_children ON runs (tenant, parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE segments (
    tenant     TEXT NOT NULL,
    run        TEXT NOT NULL,
    generation INTEGER NOT NULL,
    first      INTEGER NOT NULL,                    -- sequence of its first event
    count      INTEGER NOT NULL,
    events     BLOB NOT NULL,
    head       BLOB NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (tenant, run, generation, first)
) WITHOUT ROWID;

CREATE TABLE inbox (
    tenant   TEXT NOT NULL,
    run      TEXT NOT NULL,
    position INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    body     BLOB NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (tenant, run, position)
) WITHOUT ROWID;

CREATE TABLE deliveries (                           -- ids of messages that must be recognised when repeated
    tenant  TEXT NOT NULL,
    run     TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (tenant, run, message)
) WITHOUT ROWID;

CREATE TABLE work (
    tenant       TEXT NOT NULL,
    run          TEXT NOT NULL,
    position     INTEGER NOT NULL,                  -- of the promise
    queue        TEXT NOT NULL,
    name         TEXT NOT NULL,
    attempt      INTEGER NOT NULL,
    body         BLOB NOT NULL,
    priority     INTEGER NOT NULL,
    available_at INTEGER NOT NULL,
    owner        TEXT,
    epoch        INTEGER NOT NULL DEFAULT 1,
    done         INTEGER NOT NULL DEFAULT 0,        -- this attempt is over, its run has not taken that in yet
    PRIMARY KEY (tenant, run, position)
) WITHOUT ROWID;

CREATE INDEX work_free ON work (queue, priority DESC, available_at) WHERE owner IS NULL AND NOT done;
CREATE INDEX work_owner ON work (owner) WHERE owner IS NOT NULL;

CREATE TABLE progress (
    tenant   TEXT NOT NULL,
    run      TEXT NOT NULL,
    position INTEGER NOT NULL,
    details  BLOB NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (tenant, run, position)
) WITHOUT ROWID;

CREATE TABLE blobs (
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    data   BLOB NOT NULL,
    PRIMARY KEY (tenant, digest)
);

CREATE TABLE blob_uses (
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    run    TEXT NOT NULL,
    PRIMARY KEY (tenant, digest, run)
) WITHOUT ROWID;

CREATE INDEX blob_uses_of_run ON blob_uses (tenant, run);

CREATE TABLE workers (
    id         TEXT NOT NULL PRIMARY KEY,
    host       TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    workflows  TEXT NOT NULL,
    queues     TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
