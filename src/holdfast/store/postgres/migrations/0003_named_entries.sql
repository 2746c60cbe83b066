-- Entries of the audit that may be noted again have an id, and are written once. Most have none and are in no index of it.

ALTER TABLE audit ADD COLUMN id text COLLATE "C";

CREATE UNIQUE INDEX audit_named ON audit (tenant, id) WHERE id IS NOT NULL;
