-- What people set up in a tenant: users, tokens, templates, schedules, routes. Nothing deletes them.

CREATE TABLE items (
    tenant     TEXT NOT NULL,
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,
    version    INTEGER NOT NULL,                           -- 1, 2, 3, …
    status     TEXT NOT NULL,
    due_at     INTEGER,                                    -- when something is to be done about it
    changed_at INTEGER NOT NULL,
    body       BLOB NOT NULL,
    PRIMARY KEY (tenant, kind, id)
) WITHOUT ROWID;

-- A token is looked for by its id alone, and a kind is listed over all tenants.
CREATE INDEX items_by_kind ON items (kind, tenant, id);
CREATE INDEX items_by_id ON items (kind, id);
CREATE INDEX items_due ON items (kind, due_at) WHERE due_at IS NOT NULL;
