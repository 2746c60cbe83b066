-- Roots of lanes: the content-addressed trees of their cells, at versions of their journals.

-- The cells that were written since the last root are found by their version.
CREATE INDEX cells_unrooted ON cells (tenant, lane, version);

-- Keys of deleted cells, until the next root.
CREATE TABLE deleted_cells (
    tenant  text   NOT NULL,
    lane    text   NOT NULL,
    key     bytea  NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (tenant, lane, key)
);

CREATE TABLE cell_roots (
    tenant  text   NOT NULL,
    lane    text   NOT NULL,
    version bigint NOT NULL,
    head    bytea  NOT NULL,
    root    bytea  NOT NULL,
    cells   bigint NOT NULL,
    at      bigint NOT NULL,
    PRIMARY KEY (tenant, lane, version)
);

-- Nodes of trees and records of cells, by the SHA-256 of their bytes.
CREATE TABLE cell_nodes (
    tenant text  NOT NULL,
    lane   text  NOT NULL,
    name   bytea NOT NULL,
    data   bytea NOT NULL,
    PRIMARY KEY (tenant, lane, name)
);
