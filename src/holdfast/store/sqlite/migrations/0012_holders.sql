-- Who keeps a blob is a run or a receipt; so far a receipt's uses were those of a run that is not there.

CREATE TABLE blob_holders (
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    kind   TEXT NOT NULL,                           -- run or receipt
    holder TEXT NOT NULL,                           -- its id
    PRIMARY KEY (tenant, digest, kind, holder)
) WITHOUT ROWID;

INSERT INTO blob_holders (tenant, digest, kind, holder)
SELECT tenant, digest, 'receipt', substr(run, length('~receipt:') + 1) FROM blob_uses WHERE run LIKE '~receipt:%';
INSERT INTO blob_holders (tenant, digest, kind, holder)
SELECT tenant, digest, 'run', run FROM blob_uses WHERE run NOT LIKE '~receipt:%';

DROP TABLE blob_uses;
ALTER TABLE blob_holders RENAME TO blob_uses;
CREATE INDEX blob_uses_of_holder ON blob_uses (tenant, kind, holder);

-- The ids of messages are forgotten some time after they came. When those that are here came is not known.
ALTER TABLE deliveries ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE deliveries SET at = CAST(strftime('%s', 'now') AS INTEGER) * 1000000;
CREATE INDEX deliveries_by_age ON deliveries (at);
