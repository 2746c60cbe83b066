-- The entries of a task, by the id in their bodies: each answer is looked up in them. Entries of other kinds are not in it.
CREATE INDEX audit_of_task ON audit (
    tenant, CASE WHEN json_valid(CAST(body AS TEXT)) THEN json_extract(CAST(body AS TEXT), '$.task') END
) WHERE kind = 'approval';
