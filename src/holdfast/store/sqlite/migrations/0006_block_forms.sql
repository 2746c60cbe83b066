-- A block says how its head follows from its digests: so far by a chain, from now on by a tree.

ALTER TABLE blocks ADD COLUMN form INTEGER NOT NULL DEFAULT 1;
