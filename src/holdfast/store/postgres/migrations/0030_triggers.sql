-- The run that a trigger has started, by a hash of its workflow, the trigger's type and its reference: see Trigger.key.
-- Of runs that older versions made it is the oldest that was started so, and no fork, instance of a template or child.
ALTER TABLE runs ADD COLUMN trigger_key bytea;
UPDATE runs
SET trigger_key = sha256(convert_to(
    length(workflow) || ':' || length(trigger_type) || ':' || workflow || trigger_type || trigger_ref, 'UTF8'
))
FROM (
    SELECT DISTINCT ON (tenant, workflow, trigger_type, trigger_ref) tenant, id
    FROM runs
    WHERE trigger_type IS NOT NULL AND parent IS NULL
      AND attributes->>'forked_from' IS NULL AND attributes->>'template' IS NULL
    ORDER BY tenant, workflow, trigger_type, trigger_ref, created_at, id
) AS first
WHERE runs.tenant = first.tenant AND runs.id = first.id;
CREATE UNIQUE INDEX runs_of_trigger ON runs (tenant, trigger_key) WHERE trigger_key IS NOT NULL;
