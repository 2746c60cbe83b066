-- Calls that rely on an act, where they are not the one that did it; and receipts whose act is being taken back.
CREATE TABLE holders (
    tenant   TEXT NOT NULL,
    receipt  TEXT NOT NULL,
    run      TEXT NOT NULL,
    root     BLOB NOT NULL,
    position INTEGER NOT NULL,
    state    TEXT NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (tenant, receipt, run, root, position)
) WITHOUT ROWID;
CREATE INDEX holders_of_run ON holders (tenant, run, root, position);
CREATE TABLE takings (
    tenant  TEXT NOT NULL,
    receipt TEXT NOT NULL,
    name    TEXT NOT NULL,
    run     TEXT NOT NULL,
    PRIMARY KEY (tenant, receipt)
) WITHOUT ROWID;
CREATE INDEX takings_of_run ON takings (tenant, run);
