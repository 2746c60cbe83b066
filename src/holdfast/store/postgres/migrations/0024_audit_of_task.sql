-- The entries of a task, by the id in their bodies: each answer is looked up in them. Entries of other kinds are not in
-- it. The bodies are not read as JSON: one that was altered must not stop a statement.
CREATE INDEX audit_of_task ON audit (tenant, substring(encode(body, 'escape') FROM '"task":"([^"]*)"'))
WHERE kind = 'approval';
