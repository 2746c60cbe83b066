-- What a run executes: the kind of its program, and the code that the store keeps for it.

ALTER TABLE runs ADD COLUMN program_kind text COLLATE "C" NOT NULL DEFAULT 'function';
ALTER TABLE runs ADD COLUMN code_digest bytea;             -- of its program's code, where the store keeps that

-- Runs of a function are claimed by its name, those of another kind of program by the kind.
ALTER TABLE workers ADD COLUMN kinds text[] NOT NULL DEFAULT '{}';

-- Lines of queued runs are told apart by the kind, too: a function and a definition may have one name.
DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs (tenant, workspace, workflow, program_kind, priority DESC, ready_at, id)
    WHERE begun_at IS NULL AND parent IS NULL AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL
      AND ended_at IS NULL;

CREATE TABLE code (                                        -- nothing deletes it: a run may need it at any time
    tenant text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,                                 -- the sha256 of its bytes
    kind   text NOT NULL,
    name   text NOT NULL,
    data   bytea NOT NULL,
    PRIMARY KEY (tenant, digest)
);
