-- What people publish and look for: definitions by name and version, and the business references of runs and tasks.

CREATE TABLE definitions (                                 -- nothing changes or deletes them, nor their code
    tenant  TEXT NOT NULL,
    name    TEXT NOT NULL,
    version INTEGER NOT NULL,
    digest  BLOB NOT NULL,                                 -- of its code
    at      INTEGER NOT NULL,                              -- when it was published
    PRIMARY KEY (tenant, name, version)
) WITHOUT ROWID;

-- The reference leads: it is looked for in one tenant or in all. Runs and tasks without one are not in the indexes.
ALTER TABLE runs ADD COLUMN reference TEXT;
CREATE INDEX runs_by_reference ON runs (reference, tenant, created_at DESC, id DESC) WHERE reference IS NOT NULL;

-- Beside the body: it changes with the run, whatever version of the task people answer meanwhile.
ALTER TABLE tasks ADD COLUMN reference TEXT;
CREATE INDEX tasks_by_reference ON tasks (reference, status, created_at, tenant, id) WHERE reference IS NOT NULL;
