-- What the gate keeps: receipts, tasks, the audit and its keys, artefacts; and when and from where a run began.

ALTER TABLE runs ADD COLUMN workspace TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN actor TEXT;                          -- who asked for it
ALTER TABLE runs ADD COLUMN trigger_type TEXT;
ALTER TABLE runs ADD COLUMN trigger_ref TEXT;
ALTER TABLE runs ADD COLUMN begun_at INTEGER;                    -- when it was first leased
ALTER TABLE runs ADD COLUMN governed INTEGER NOT NULL DEFAULT 0; -- it has proposed an action
ALTER TABLE runs ADD COLUMN writes INTEGER NOT NULL DEFAULT 0;   -- acts that write, so far
ALTER TABLE runs ADD COLUMN evidence BLOB;                       -- hash of this generation's evidence

UPDATE runs SET begun_at = created_at WHERE standing <> 'queued';

-- What may go on without asking for a place, and what must ask: the two halves of runs_ready.
CREATE INDEX runs_going ON runs (priority DESC, ready_at)
    WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
      AND (parent IS NOT NULL OR begun_at IS NOT NULL);
CREATE INDEX runs_queued ON runs (tenant, workflow, priority DESC, ready_at)
    WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
      AND parent IS NULL AND begun_at IS NULL;
-- Its last columns are there so that counting reads the index alone.
CREATE INDEX runs_under_way ON runs (tenant, workflow, parent, begun_at, ended_at)
    WHERE parent IS NULL AND begun_at IS NOT NULL AND ended_at IS NULL;
CREATE INDEX runs_begun ON runs (tenant, begun_at, workflow) WHERE parent IS NULL AND begun_at IS NOT NULL;
CREATE INDEX runs_evidence_due ON runs (ended_at) WHERE governed AND evidence IS NULL AND ended_at IS NOT NULL;

CREATE TABLE receipts (
    tenant      TEXT NOT NULL,
    key         TEXT NOT NULL,                      -- the idempotency key
    id          TEXT NOT NULL,
    run         TEXT NOT NULL,
    state       TEXT NOT NULL,
    token       TEXT NOT NULL,                      -- of who may close it
    connector   TEXT NOT NULL,
    opened_at   INTEGER NOT NULL,
    reversed_by TEXT,                               -- the id of the receipt that took it back
    body        TEXT NOT NULL,                      -- all of it but reversed_by
    PRIMARY KEY (tenant, key)
);

CREATE INDEX receipts_by_id ON receipts (tenant, id);
CREATE INDEX receipts_of_run ON receipts (tenant, run, opened_at, id);

CREATE TABLE tasks (
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    run        TEXT NOT NULL,
    generation INTEGER NOT NULL,
    status     TEXT NOT NULL,
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    body       TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX tasks_of_run ON tasks (tenant, run);
CREATE INDEX tasks_by_status ON tasks (status, created_at, tenant, id);

CREATE TABLE audit (
    sequence INTEGER PRIMARY KEY,
    tenant   TEXT NOT NULL,
    run      TEXT,
    kind     TEXT NOT NULL,
    at       INTEGER NOT NULL,
    body     BLOB NOT NULL,
    position INTEGER                                -- its place in its tenant's chain, once it is sealed
);

CREATE INDEX audit_unsealed ON audit (sequence) WHERE position IS NULL;
CREATE INDEX audit_chain ON audit (tenant, position) WHERE position IS NOT NULL;
-- Filled as entries are sealed, many at a time: a note itself touches no page but the last ones.
CREATE INDEX audit_of_run ON audit (tenant, run, position) WHERE position IS NOT NULL;

CREATE TABLE blocks (
    tenant    TEXT NOT NULL,
    number    INTEGER NOT NULL,
    first     INTEGER NOT NULL,                     -- the position of its first entry
    count     INTEGER NOT NULL,
    previous  BLOB NOT NULL,
    head      BLOB NOT NULL,
    digests   BLOB NOT NULL,
    sealed_at INTEGER NOT NULL,
    signer    TEXT NOT NULL,
    signature BLOB NOT NULL,
    PRIMARY KEY (tenant, number)
);

CREATE TABLE signing_keys (
    number      INTEGER PRIMARY KEY,
    id          TEXT NOT NULL,
    public      BLOB NOT NULL,
    private     BLOB,
    created_at  INTEGER NOT NULL,
    endorsement BLOB NOT NULL
);

CREATE TABLE artefacts (
    tenant     TEXT NOT NULL,
    run        TEXT NOT NULL,
    generation INTEGER NOT NULL,
    name       TEXT NOT NULL,
    sha256     BLOB NOT NULL,
    size       INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    data       BLOB NOT NULL,
    PRIMARY KEY (tenant, run, generation, name)
);
