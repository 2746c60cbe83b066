-- How many runs each tenant has by status is counted from these indexes alone. Counters kept by triggers cost every start
-- and every change of status more than the indexes do.

CREATE INDEX runs_standing ON runs (tenant, standing);
CREATE INDEX runs_held_up ON runs (tenant, standing, pause) WHERE ended_at IS NULL AND (pause IS NOT NULL OR cancelling);
