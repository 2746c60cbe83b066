-- The run that a trigger has started, by a hash of its workflow, the trigger's type and its reference: see Trigger.key.
-- Of runs that older versions made it is the oldest that was started so, and no fork, instance of a template or child.
ALTER TABLE runs ADD COLUMN trigger_key BLOB;
UPDATE runs
SET trigger_key = sha256(length(workflow) || ':' || length(trigger_type) || ':' || workflow || trigger_type || trigger_ref)
WHERE (tenant, id) IN (
    SELECT tenant, id FROM (
        SELECT tenant, id, row_number() OVER (
            PARTITION BY tenant, workflow, trigger_type, trigger_ref ORDER BY created_at, id
        ) AS place
        FROM runs
        WHERE trigger_type IS NOT NULL AND parent IS NULL
          AND json_extract(attributes, '$.forked_from') IS NULL AND json_extract(attributes, '$.template') IS NULL
    ) WHERE place = 1
);
CREATE UNIQUE INDEX runs_of_trigger ON runs (tenant, trigger_key) WHERE trigger_key IS NOT NULL;
