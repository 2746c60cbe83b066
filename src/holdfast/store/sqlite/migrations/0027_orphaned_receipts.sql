-- Receipts whose outcome no run waits for, with the task that asks for it.
CREATE TABLE orphaned_receipts (
    tenant TEXT NOT NULL,
    id     TEXT NOT NULL,
    task   TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
);
