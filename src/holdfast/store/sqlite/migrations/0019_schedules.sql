-- Schedules whose ticks wait are looked for by their status, every few seconds.

CREATE INDEX items_by_status ON items (kind, status, tenant, id);
