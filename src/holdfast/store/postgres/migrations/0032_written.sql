-- How the author of a definition has ordered its branches, options and nodes, as JSON: no digest has it.
ALTER TABLE definitions ADD COLUMN written text NOT NULL DEFAULT '{}';
