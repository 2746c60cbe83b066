-- The cells of machines: one row for each key, as it stands at the head of its lane's journal. Rows are written again and
-- again, so pages keep room for it.

CREATE TABLE cells (
    tenant    text   NOT NULL,
    lane      text   NOT NULL,
    key       bytea  NOT NULL,
    machine   text   NOT NULL,
    record    bytea  NOT NULL,
    status    text   NOT NULL,
    wake_at   bigint,
    active_at bigint NOT NULL,
    version   bigint NOT NULL,
    PRIMARY KEY (tenant, lane, key)
) WITH (fillfactor = 70);
CREATE INDEX cells_due ON cells (tenant, lane, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX cells_held_up ON cells (tenant, machine, status, lane, key) WHERE status IN ('parked', 'failed');

-- Events that no cell could handle. A person may send one again.
CREATE TABLE dead_letters (
    tenant  text NOT NULL,
    lane    text NOT NULL,
    version bigint NOT NULL,
    number  bigint NOT NULL,
    machine text NOT NULL,
    schema  text NOT NULL,
    value   bytea NOT NULL,
    key     bytea NOT NULL,
    reason  text NOT NULL,
    at      bigint NOT NULL,
    id      text,
    PRIMARY KEY (tenant, lane, version, number)
);

-- Lanes take no place under a cap: they are not counted.
DROP INDEX runs_under_way;
CREATE INDEX runs_under_way ON runs (tenant, workflow, workspace)
    WHERE begun_at IS NOT NULL AND parent IS NULL AND ended_at IS NULL AND program_kind <> 'machine';
