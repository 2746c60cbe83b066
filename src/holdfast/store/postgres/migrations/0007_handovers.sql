-- Work counts its leases, so that whoever takes it over knows that this attempt may have been begun before.

ALTER TABLE work ADD COLUMN claims integer NOT NULL DEFAULT 0;
