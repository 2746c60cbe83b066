-- How often a run has written, with its children and theirs: what max_writes_per_run caps.

CREATE TABLE write_counts (
    tenant TEXT NOT NULL,
    run    TEXT NOT NULL,
    writes INTEGER NOT NULL,
    PRIMARY KEY (tenant, run)
) WITHOUT ROWID;

INSERT INTO write_counts (tenant, run, writes)
WITH RECURSIVE line (tenant, run, parent, writes) AS (
    SELECT tenant, id, parent, writes FROM runs WHERE writes > 0
    UNION ALL
    SELECT above.tenant, above.id, above.parent, line.writes
    FROM line JOIN runs AS above ON above.tenant = line.tenant AND above.id = line.parent
)
SELECT tenant, run, sum(writes) FROM line GROUP BY tenant, run;
