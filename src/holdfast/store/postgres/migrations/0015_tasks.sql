-- What tasks are listed by: their subject, who has them, and when they are due. The rest is in their bodies.
ALTER TABLE tasks ADD COLUMN kind text NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN owner text COLLATE "C";
ALTER TABLE tasks ADD COLUMN due_at bigint;
-- Without a cast to json: a body that was altered must not keep the store from opening.
UPDATE tasks SET kind = coalesce(substring(body FROM '"kind":"([a-z]+)"'), '');
