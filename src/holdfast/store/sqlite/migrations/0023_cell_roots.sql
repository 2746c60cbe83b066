-- Roots of lanes: the content-addressed trees of their cells, at versions of their journals.

-- The cells that were written since the last root are found by their version.
CREATE INDEX cells_unrooted ON cells (tenant, lane, version);

-- Keys of deleted cells, until the next root.
CREATE TABLE deleted_cells (
    tenant  TEXT    NOT NULL,
    lane    TEXT    NOT NULL,
    key     BLOB    NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (tenant, lane, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE cell_roots (
    tenant  TEXT    NOT NULL,
    lane    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    head    BLOB    NOT NULL,
    root    BLOB    NOT NULL,
    cells   INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (tenant, lane, version)
) STRICT, WITHOUT ROWID;

-- Nodes of trees and records of cells, by the SHA-256 of their bytes.
CREATE TABLE cell_nodes (
    tenant TEXT NOT NULL,
    lane   TEXT NOT NULL,
    name   BLOB NOT NULL,
    data   BLOB NOT NULL,
    PRIMARY KEY (tenant, lane, name)
) STRICT;
