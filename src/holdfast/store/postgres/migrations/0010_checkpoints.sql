-- The last checkpoint of a run: what it goes on from without the journal before. It is only a cache; all of them may be
-- deleted at any time.
CREATE TABLE checkpoints (
    tenant     text NOT NULL,
    run        text NOT NULL,
    generation bigint NOT NULL,
    version    bigint NOT NULL,
    head       bytea NOT NULL,
    data       bytea NOT NULL,
    PRIMARY KEY (tenant, run)
);
