-- What a run executes: the kind of its program, and the code that the store keeps for it.

ALTER TABLE runs ADD COLUMN program_kind TEXT NOT NULL DEFAULT 'function';
ALTER TABLE runs ADD COLUMN code_digest BLOB;              -- of its program's code, where the store keeps that

-- Runs of a function are claimed by its name, those of another kind of program by the kind.
ALTER TABLE workers ADD COLUMN kinds TEXT NOT NULL DEFAULT '[]';

-- Lines of queued runs are told apart by the kind, too: a function and a definition may have one name.
DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs (tenant, workspace, workflow, program_kind, priority DESC, ready_at)
    WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
      AND parent IS NULL AND begun_at IS NULL;

CREATE TABLE code (                                        -- nothing deletes it: a run may need it at any time
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,                                  -- the sha256 of its bytes
    kind   TEXT NOT NULL,
    name   TEXT NOT NULL,
    data   BLOB NOT NULL,
    PRIMARY KEY (tenant, digest)
);
