-- Runs of one template wait in a line of their own.

DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs (
    tenant, workspace, workflow, program_kind, (coalesce(attributes ->> 'template', '') COLLATE "C"), priority DESC, ready_at, id
) WHERE begun_at IS NULL AND parent IS NULL AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL
  AND ended_at IS NULL;

-- Instances of templates, which are deleted once their story is in the audit.
CREATE INDEX runs_of_templates ON runs (ended_at) WHERE ended_at IS NOT NULL AND attributes ->> 'template' IS NOT NULL;
