-- What one worker hands over to another.

-- Work counts its leases, so that whoever takes it over knows that this attempt may have been begun before.
ALTER TABLE work ADD COLUMN claims integer NOT NULL DEFAULT 0;

-- The runs that a worker has given back because its code does not fit their journal.
CREATE TABLE declined (
    tenant     text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    worker     text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    at         bigint NOT NULL,
    reason     text NOT NULL,
    PRIMARY KEY (tenant, run, worker)
);
