-- What people set up in a tenant: users, tokens, templates, schedules, routes. Nothing deletes them.

CREATE TABLE items (
    tenant     text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,                            -- 1, 2, 3, …
    status     text COLLATE "C" NOT NULL,
    due_at     bigint,                                     -- when something is to be done about it
    changed_at bigint NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (tenant, kind, id)
);

-- A token is looked for by its id alone, and a kind is listed over all tenants.
CREATE INDEX items_by_kind ON items (kind, tenant, id);
CREATE INDEX items_by_id ON items (kind, id);
CREATE INDEX items_due ON items (kind, due_at) WHERE due_at IS NOT NULL;
