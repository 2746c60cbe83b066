-- What tasks are listed by: their subject, who has them, and when they are due. The rest is in their bodies.
ALTER TABLE tasks ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN owner TEXT;
ALTER TABLE tasks ADD COLUMN due_at INTEGER;
UPDATE tasks SET kind = coalesce(json_extract(body, '$.kind'), '') WHERE json_valid(body);
