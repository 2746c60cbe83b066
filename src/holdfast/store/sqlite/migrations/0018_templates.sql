-- Runs of one template wait in a line of their own. Attributes that were altered and cannot be read name no template: an
-- error in an index would stop all runs.

DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs (
    tenant, workspace, workflow, program_kind,
    coalesce(CASE WHEN json_valid(attributes) THEN json_extract(attributes, '$.template') END, ''), priority DESC, ready_at
) WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
  AND parent IS NULL AND begun_at IS NULL;

-- Instances of templates, which are deleted once their story is in the audit.
CREATE INDEX runs_of_templates ON runs (ended_at)
    WHERE ended_at IS NOT NULL
      AND CASE WHEN json_valid(attributes) THEN json_extract(attributes, '$.template') END IS NOT NULL;
