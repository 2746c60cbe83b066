-- Workspaces of a tenant take turns: the queue is read by workspace, and what is under way is counted by it.

DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs (tenant, workspace, workflow, priority DESC, ready_at)
    WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
      AND parent IS NULL AND begun_at IS NULL;
-- Its last columns are there so that counting reads the index alone.
DROP INDEX runs_under_way;
CREATE INDEX runs_under_way ON runs (tenant, workflow, workspace, parent, begun_at, ended_at)
    WHERE parent IS NULL AND begun_at IS NOT NULL AND ended_at IS NULL;
