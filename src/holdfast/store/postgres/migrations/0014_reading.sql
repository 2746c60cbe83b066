-- How many runs each tenant has by status is counted from these indexes alone. Counters would make the commits of several
-- workers wait for each other.

CREATE INDEX runs_standing ON runs (tenant, standing);
CREATE INDEX runs_held_up ON runs (tenant, standing) WHERE ended_at IS NULL AND (pause IS NOT NULL OR cancelling);
