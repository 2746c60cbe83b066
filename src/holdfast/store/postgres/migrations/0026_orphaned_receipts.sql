-- Receipts whose outcome no run waits for, with the task that asks for it. Not an index on receipts: closing one must
-- change no indexed column.
CREATE TABLE orphaned_receipts (
    tenant text COLLATE "C" NOT NULL,
    id     text COLLATE "C" NOT NULL,
    task   text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);
