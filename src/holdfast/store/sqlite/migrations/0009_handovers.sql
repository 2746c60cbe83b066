-- What one worker hands over to another.

-- Work counts its leases, so that whoever takes it over knows that this attempt may have been begun before.
ALTER TABLE work ADD COLUMN claims INTEGER NOT NULL DEFAULT 0;

-- The runs that a worker has given back because its code does not fit their journal.
CREATE TABLE declined (
    tenant     TEXT NOT NULL,
    run        TEXT NOT NULL,
    worker     TEXT NOT NULL,
    generation INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (tenant, run, worker)
) WITHOUT ROWID;
