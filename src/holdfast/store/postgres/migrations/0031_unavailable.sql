-- The definitions that a worker was given and could not accept, as JSON.
ALTER TABLE workers ADD COLUMN unavailable text NOT NULL DEFAULT '[]';
