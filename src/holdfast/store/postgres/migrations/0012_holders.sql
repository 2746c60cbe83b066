-- Who keeps a blob is a run or a receipt; so far a receipt's uses were those of a run that is not there.

ALTER TABLE blob_uses DROP CONSTRAINT blob_uses_pkey;
DROP INDEX blob_uses_of_run;
ALTER TABLE blob_uses RENAME COLUMN run TO holder;              -- its id
ALTER TABLE blob_uses ADD COLUMN kind text COLLATE "C" NOT NULL DEFAULT 'run';  -- run or receipt
UPDATE blob_uses SET kind = 'receipt', holder = substr(holder, length('~receipt:') + 1) WHERE holder LIKE '~receipt:%';
ALTER TABLE blob_uses ALTER COLUMN kind DROP DEFAULT;
ALTER TABLE blob_uses ADD PRIMARY KEY (tenant, digest, kind, holder);
CREATE INDEX blob_uses_of_holder ON blob_uses (tenant, kind, holder);

-- The ids of messages are forgotten some time after they came. When those that are here came is not known.
ALTER TABLE deliveries ADD COLUMN at bigint NOT NULL DEFAULT 0;
UPDATE deliveries SET at = (extract(epoch FROM now()) * 1000000)::bigint;
ALTER TABLE deliveries ALTER COLUMN at DROP DEFAULT;
CREATE INDEX deliveries_by_age ON deliveries (at);
