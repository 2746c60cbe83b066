-- The last checkpoint of a run: what it goes on from without the journal before. It is only a cache; all of them may be
-- deleted at any time.
CREATE TABLE checkpoints (
    tenant     TEXT NOT NULL,
    run        TEXT NOT NULL,
    generation INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    head       BLOB NOT NULL,
    data       BLOB NOT NULL,
    PRIMARY KEY (tenant, run)
) WITHOUT ROWID;
