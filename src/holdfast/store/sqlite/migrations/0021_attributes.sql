-- Runs by their attributes, newest first. Attributes are written when a run is made, and never change. Who makes or deletes a
-- run with attributes writes here, too: triggers would cost every run a quarter more.
CREATE TABLE run_attributes (
    of_tenant TEXT NOT NULL,
    name      TEXT NOT NULL,
    content   TEXT NOT NULL,
    made_at   INTEGER NOT NULL,
    run       TEXT NOT NULL,
    PRIMARY KEY (of_tenant, name, content, made_at, run)
) WITHOUT ROWID;

INSERT OR IGNORE INTO run_attributes
SELECT runs.tenant, each.key, each.value, runs.created_at, runs.id
FROM runs, json_each(CASE WHEN json_valid(runs.attributes) THEN runs.attributes ELSE '{}' END) AS each
WHERE runs.attributes <> '{}' AND each.type = 'text';
