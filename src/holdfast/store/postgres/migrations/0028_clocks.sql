-- By how much a worker's clock is off the store's, where that is too much for it to schedule by.
ALTER TABLE workers ADD COLUMN clock_ahead bigint NOT NULL DEFAULT 0;
