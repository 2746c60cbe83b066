-- What the gate keeps: receipts, tasks, the audit, artefacts; and what a run's row tells of where it came from, of its
-- tenant's caps and of its evidence. A body is the whole struct as JSON; columns beside it are what statements look for.

ALTER TABLE runs
    ADD COLUMN workspace    text NOT NULL DEFAULT '',
    ADD COLUMN actor        text,
    ADD COLUMN trigger_type text,
    ADD COLUMN trigger_ref  text,
    ADD COLUMN begun_at     bigint,                 -- when it was first leased: it has passed its tenant's caps
    ADD COLUMN governed     boolean NOT NULL DEFAULT false,
    ADD COLUMN writes       integer NOT NULL DEFAULT 0,
    ADD COLUMN evidence     bytea;                  -- the sha256 of this generation's evidence

UPDATE runs SET begun_at = created_at WHERE standing <> 'queued';

-- Root runs that wait for their tenant's leave to begin; those that have it; and when they got it.
CREATE INDEX runs_queued ON runs (tenant, workflow, priority DESC, ready_at, id)
    WHERE begun_at IS NULL AND parent IS NULL AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL
      AND ended_at IS NULL;
CREATE INDEX runs_under_way ON runs (tenant, workflow)
    WHERE begun_at IS NOT NULL AND parent IS NULL AND ended_at IS NULL;
CREATE INDEX runs_begun ON runs (tenant, begun_at) WHERE begun_at IS NOT NULL AND parent IS NULL;
-- Those that need no leave: without this a claim within limits would read past all that wait for theirs.
CREATE INDEX runs_ready_begun ON runs (priority DESC, ready_at, tenant, id)
    WHERE (begun_at IS NOT NULL OR parent IS NOT NULL) AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL
      AND ended_at IS NULL;
CREATE INDEX runs_evidence_due ON runs (ended_at) WHERE governed AND evidence IS NULL AND ended_at IS NOT NULL;

CREATE TABLE receipts (
    tenant      text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,          -- the idempotency key
    id          text COLLATE "C" NOT NULL,
    run         text COLLATE "C" NOT NULL,
    root        bytea NOT NULL,
    position    bigint NOT NULL,
    state       text NOT NULL,
    token       text NOT NULL,                      -- who may close it
    opened_at   bigint NOT NULL,
    reversed_by text,
    body        text NOT NULL,
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);
-- Closing a receipt changes no indexed column: with room left on the page it touches no index. So none is on the state.

CREATE INDEX receipts_id ON receipts (tenant, id);
CREATE INDEX receipts_of_run ON receipts (tenant, run, opened_at);
CREATE INDEX receipts_oldest ON receipts (tenant, opened_at, id);

CREATE TABLE tasks (
    tenant     text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    status     text NOT NULL,
    version    bigint NOT NULL,
    created_at bigint NOT NULL,
    body       text NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX tasks_of_run ON tasks (tenant, run);
CREATE INDEX tasks_oldest ON tasks (tenant, created_at, id);
CREATE INDEX tasks_requested ON tasks (created_at, tenant, id) WHERE status = 'requested';

CREATE TABLE audit (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    run      text COLLATE "C",
    kind     text NOT NULL,
    at       bigint NOT NULL,
    body     bytea NOT NULL,
    position bigint                                 -- its place in the tenant's chain, once it is sealed
);

CREATE INDEX audit_unsealed ON audit (sequence) WHERE position IS NULL;
CREATE UNIQUE INDEX audit_sealed ON audit (tenant, position) WHERE position IS NOT NULL;
CREATE INDEX audit_of_run ON audit (tenant, run, sequence) WHERE run IS NOT NULL;

CREATE TABLE blocks (
    tenant    text COLLATE "C" NOT NULL,
    number    bigint NOT NULL,
    first     bigint NOT NULL,                      -- position of its first entry
    count     bigint NOT NULL,
    previous  bytea NOT NULL,
    head      bytea NOT NULL,
    digests   bytea NOT NULL,
    sealed_at bigint NOT NULL,
    signer    text NOT NULL,
    signature bytea NOT NULL,
    PRIMARY KEY (tenant, number)
);

CREATE TABLE signing_keys (
    number      bigint NOT NULL PRIMARY KEY,
    id          text NOT NULL,
    public      bytea NOT NULL,
    private     bytea,
    created_at  bigint NOT NULL,
    endorsement bytea NOT NULL
);

CREATE TABLE artefacts (
    tenant     text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    name       text COLLATE "C" NOT NULL,
    sha256     bytea NOT NULL,
    size       bigint NOT NULL,
    at         bigint NOT NULL,
    data       bytea NOT NULL,
    PRIMARY KEY (tenant, run, generation, name)
);
