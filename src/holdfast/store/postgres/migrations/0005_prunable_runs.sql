-- A governed run is deleted only when it has evidence: those that wait for theirs are in no index that pruning reads.

DROP INDEX runs_ended;
CREATE INDEX runs_prunable ON runs (ended_at) WHERE ended_at IS NOT NULL AND (NOT governed OR evidence IS NOT NULL);
