-- Runs, their journals, inboxes and queued work. Times are microseconds since 1970. Tenant leads every key.
-- Keys sort by bytes (collation "C"), so that a worker can lock rows in the order in which the server sorts them.

CREATE TABLE runs (
    tenant          text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    workflow        text NOT NULL,
    root            bytea NOT NULL,
    generation      bigint NOT NULL DEFAULT 0,
    version         bigint NOT NULL,                -- number of events in this generation's journal
    head            bytea NOT NULL,                 -- hash of its last segment
    standing        text NOT NULL,
    cancelling      boolean NOT NULL DEFAULT false,
    pause           text,                           -- why it must not go on
    priority        bigint NOT NULL DEFAULT 0,
    attributes      jsonb NOT NULL DEFAULT '{}',
    parent          text COLLATE "C",
    parent_position bigint,
    fingerprint     bytea NOT NULL,                 -- of the workflow's name and arguments
    owner           text COLLATE "C",               -- the worker that leases it
    epoch           bigint NOT NULL DEFAULT 1,      -- raised whenever the lease changes hands
    crashes         bigint NOT NULL DEFAULT 0,      -- leases lost in a row without an advance between
    ready_at        bigint,                         -- wants a worker since then
    wake_at         bigint,                         -- its earliest timer
    waiting         text,                           -- what it waits for, as explain shows it
    arrived         bigint NOT NULL DEFAULT 0,      -- last position in its inbox
    consumed        bigint NOT NULL DEFAULT 0,      -- last position taken into a turn
    error           text,
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL,
    ended_at        bigint,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02);
-- A turn of a leased run changes no indexed column: with room left on the page its update touches no index at all.

CREATE INDEX runs_ready ON runs (priority DESC, ready_at, tenant, id)
    WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL;
CREATE INDEX runs_wake ON runs (wake_at) WHERE wake_at IS NOT NULL AND owner IS NULL AND ended_at IS NULL;
CREATE INDEX runs_owner ON runs (owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_newest ON runs (tenant, created_at DESC, id DESC);
CREATE INDEX runs_children ON runs (tenant, parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_attributes ON runs USING gin (attributes jsonb_path_ops) WHERE attributes <> '{}';

CREATE TABLE segments (
    tenant     text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    first      bigint NOT NULL,                     -- sequence of its first event
    count      bigint NOT NULL,
    events     bytea NOT NULL,
    head       bytea NOT NULL,
    at         bigint NOT NULL,
    PRIMARY KEY (tenant, run, generation, first)
);

CREATE TABLE inbox (
    tenant   text COLLATE "C" NOT NULL,
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    kind     text NOT NULL,
    body     bytea NOT NULL,
    at       bigint NOT NULL,
    PRIMARY KEY (tenant, run, position)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE deliveries (                           -- ids of messages that must be recognised when repeated
    tenant  text COLLATE "C" NOT NULL,
    run     text COLLATE "C" NOT NULL,
    message text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, run, message)
);

CREATE TABLE work (
    tenant       text COLLATE "C" NOT NULL,
    run          text COLLATE "C" NOT NULL,
    position     bigint NOT NULL,                   -- of the promise
    queue        text NOT NULL,
    name         text NOT NULL,
    attempt      bigint NOT NULL,
    body         bytea NOT NULL,
    priority     bigint NOT NULL,
    available_at bigint NOT NULL,
    owner        text COLLATE "C",
    epoch        bigint NOT NULL DEFAULT 1,
    done         boolean NOT NULL DEFAULT false,    -- this attempt is over, its run has not taken that in yet
    PRIMARY KEY (tenant, run, position)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX work_free ON work (queue, priority DESC, available_at, tenant, run, position)
    WHERE owner IS NULL AND NOT done;
CREATE INDEX work_owner ON work (owner) WHERE owner IS NOT NULL;

CREATE TABLE progress (
    tenant   text COLLATE "C" NOT NULL,
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    details  bytea NOT NULL,
    at       bigint NOT NULL,
    PRIMARY KEY (tenant, run, position)
);

CREATE TABLE blobs (
    tenant text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    data   bytea NOT NULL,
    PRIMARY KEY (tenant, digest)
);

CREATE TABLE blob_uses (
    tenant text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    run    text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, digest, run)
);

CREATE INDEX blob_uses_of_run ON blob_uses (tenant, run);

CREATE TABLE workers (
    id         text COLLATE "C" NOT NULL PRIMARY KEY,
    host       text NOT NULL,
    pid        bigint NOT NULL,
    workflows  text[] NOT NULL,
    queues     text[] NOT NULL,
    started_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    beat_at    bigint NOT NULL                      -- when it was last heard of, by the server's clock
);
