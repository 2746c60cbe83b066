-- Calls that rely on an act, where they are not the one that did it; and receipts whose act is being taken back.
CREATE TABLE holders (
    tenant   text COLLATE "C" NOT NULL,
    receipt  text COLLATE "C" NOT NULL,
    run      text COLLATE "C" NOT NULL,
    root     bytea NOT NULL,
    position bigint NOT NULL,
    state    text NOT NULL,
    at       bigint NOT NULL,
    PRIMARY KEY (tenant, receipt, run, root, position)
);
CREATE INDEX holders_of_run ON holders (tenant, run, root, position);
CREATE TABLE takings (
    tenant  text COLLATE "C" NOT NULL,
    receipt text COLLATE "C" NOT NULL,
    name    text NOT NULL,
    run     text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, receipt)
);
CREATE INDEX takings_of_run ON takings (tenant, run);
