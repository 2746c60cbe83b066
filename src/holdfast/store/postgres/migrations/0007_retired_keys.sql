-- A new key says how far the chains of all tenants had come when it was made: the keys before it sign nothing behind that.

ALTER TABLE signing_keys
    ADD COLUMN chains     bigint NOT NULL DEFAULT 0,    -- how many there were
    ADD COLUMN heads      bytea NOT NULL DEFAULT '',    -- the root of the tree over their ends
    ADD COLUMN retirement bytea NOT NULL DEFAULT '';    -- its own signature over both

CREATE TABLE chain_ends (
    key_number bigint NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    number     bigint NOT NULL,
    head       bytea NOT NULL,
    PRIMARY KEY (key_number, tenant)
);

-- The block that holds an entry.
CREATE INDEX blocks_first ON blocks (tenant, first);
