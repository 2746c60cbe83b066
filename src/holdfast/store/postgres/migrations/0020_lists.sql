-- Lists of runs and tasks, newest or oldest first, are read from an index whatever they are filtered by: a page costs what is
-- on it, not what is in the store.

DROP INDEX runs_standing;
CREATE INDEX runs_standing ON runs (tenant, standing, created_at DESC, id DESC);
DROP INDEX runs_held_up;
CREATE INDEX runs_held_up ON runs (tenant, created_at DESC, id DESC)
    WHERE ended_at IS NULL AND (pause IS NOT NULL OR cancelling);
DROP INDEX runs_children;
CREATE INDEX runs_children ON runs (tenant, parent, created_at DESC, id DESC) WHERE parent IS NOT NULL;
CREATE INDEX runs_of_workflow ON runs (tenant, workflow, created_at DESC, id DESC);
CREATE INDEX runs_of_workspace ON runs (tenant, workspace, created_at DESC, id DESC) WHERE workspace <> '';
CREATE INDEX runs_of_actor ON runs (tenant, actor, created_at DESC, id DESC) WHERE actor IS NOT NULL;

-- A tenant with few open tasks does not read past those of the others.
CREATE INDEX tasks_open ON tasks (tenant, created_at, id) WHERE status = 'requested';
