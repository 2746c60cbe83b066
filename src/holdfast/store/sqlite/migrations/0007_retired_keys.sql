-- A new key says how far the chains of all tenants had come when it was made: the keys before it sign nothing behind that.

ALTER TABLE signing_keys ADD COLUMN chains INTEGER NOT NULL DEFAULT 0;      -- how many there were
ALTER TABLE signing_keys ADD COLUMN heads BLOB NOT NULL DEFAULT x'';        -- the root of the tree over their ends
ALTER TABLE signing_keys ADD COLUMN retirement BLOB NOT NULL DEFAULT x'';   -- its own signature over both

CREATE TABLE chain_ends (
    key_number INTEGER NOT NULL,
    tenant     TEXT NOT NULL,
    number     INTEGER NOT NULL,
    head       BLOB NOT NULL,
    PRIMARY KEY (key_number, tenant)
) WITHOUT ROWID;

-- The block that holds an entry.
CREATE INDEX blocks_first ON blocks (tenant, first);
