-- How many runs each tenant has by status: counting a million rows would take too long. Triggers keep the numbers. The
-- usual turn changes none of these columns, so it pays nothing.

CREATE TABLE run_counts (
    tenant TEXT NOT NULL,
    status TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (tenant, status)
) WITHOUT ROWID;

INSERT INTO run_counts (tenant, status, count)
SELECT tenant, CASE WHEN standing IN ('completed', 'failed', 'cancelled') THEN standing WHEN pause IS NOT NULL THEN 'paused'
         WHEN cancelling THEN 'cancelling' ELSE standing END AS status, count(*)
FROM runs GROUP BY tenant, status;

CREATE TRIGGER runs_counted_in AFTER INSERT ON runs BEGIN
    INSERT INTO run_counts (tenant, status, count)
    VALUES (new.tenant, CASE WHEN new.standing IN ('completed', 'failed', 'cancelled') THEN new.standing WHEN new.pause IS NOT NULL THEN 'paused'
         WHEN new.cancelling THEN 'cancelling' ELSE new.standing END, 1)
    ON CONFLICT (tenant, status) DO UPDATE SET count = count + excluded.count;
END;

CREATE TRIGGER runs_counted_out AFTER DELETE ON runs BEGIN
    INSERT INTO run_counts (tenant, status, count)
    VALUES (old.tenant, CASE WHEN old.standing IN ('completed', 'failed', 'cancelled') THEN old.standing WHEN old.pause IS NOT NULL THEN 'paused'
         WHEN old.cancelling THEN 'cancelling' ELSE old.standing END, -1)
    ON CONFLICT (tenant, status) DO UPDATE SET count = count + excluded.count;
END;

CREATE TRIGGER runs_counted_anew AFTER UPDATE OF standing, pause, cancelling ON runs
WHEN old.standing <> new.standing OR old.pause IS NOT new.pause OR old.cancelling <> new.cancelling BEGIN
    INSERT INTO run_counts (tenant, status, count)
    VALUES (old.tenant, CASE WHEN old.standing IN ('completed', 'failed', 'cancelled') THEN old.standing WHEN old.pause IS NOT NULL THEN 'paused'
         WHEN old.cancelling THEN 'cancelling' ELSE old.standing END, -1)
    ON CONFLICT (tenant, status) DO UPDATE SET count = count + excluded.count;
    INSERT INTO run_counts (tenant, status, count)
    VALUES (new.tenant, CASE WHEN new.standing IN ('completed', 'failed', 'cancelled') THEN new.standing WHEN new.pause IS NOT NULL THEN 'paused'
         WHEN new.cancelling THEN 'cancelling' ELSE new.standing END, 1)
    ON CONFLICT (tenant, status) DO UPDATE SET count = count + excluded.count;
END;
