-- The mark of a run that was split, or inherits from one: what is sent to a place of it goes to the heir that has the place.
ALTER TABLE runs ADD COLUMN split TEXT;
