-- The cells of machines: one row for each key, as it stands at the head of its lane's journal.

CREATE TABLE cells (
    tenant    TEXT    NOT NULL,
    lane      TEXT    NOT NULL,
    key       BLOB    NOT NULL,
    machine   TEXT    NOT NULL,
    record    BLOB    NOT NULL,
    status    TEXT    NOT NULL,
    wake_at   INTEGER,
    active_at INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    PRIMARY KEY (tenant, lane, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX cells_due ON cells (tenant, lane, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX cells_held_up ON cells (tenant, machine, status, lane, key) WHERE status IN ('parked', 'failed');

-- Events that no cell could handle. A person may send one again.
CREATE TABLE dead_letters (
    tenant  TEXT NOT NULL,
    lane    TEXT NOT NULL,
    version INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    machine TEXT NOT NULL,
    schema  TEXT NOT NULL,
    value   BLOB NOT NULL,
    key     BLOB NOT NULL,
    reason  TEXT NOT NULL,
    at      INTEGER NOT NULL,
    id      TEXT,
    PRIMARY KEY (tenant, lane, version, number)
) STRICT, WITHOUT ROWID;

-- Lanes take no place under a cap: they are not counted.
DROP INDEX runs_under_way;
CREATE INDEX runs_under_way ON runs (tenant, workflow, workspace, parent, begun_at, ended_at, program_kind)
    WHERE parent IS NULL AND begun_at IS NOT NULL AND ended_at IS NULL AND program_kind <> 'machine';
