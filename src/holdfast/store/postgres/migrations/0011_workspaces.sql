-- Workspaces of a tenant take turns: the queue is read by workspace, and what is under way is counted by it.

DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs (tenant, workspace, workflow, priority DESC, ready_at, id)
    WHERE begun_at IS NULL AND parent IS NULL AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL
      AND ended_at IS NULL;
DROP INDEX runs_under_way;
CREATE INDEX runs_under_way ON runs (tenant, workflow, workspace)
    WHERE begun_at IS NOT NULL AND parent IS NULL AND ended_at IS NULL;
