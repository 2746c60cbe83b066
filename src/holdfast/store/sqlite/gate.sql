-- The statements of the gate. Opening a receipt, closing it and noting an entry are one statement each: every action
-- makes them.

-- name: note
INSERT INTO audit (tenant, run, kind, at, body) VALUES (?, ?, ?, ?, ?);

-- name: note_once
-- Nothing happens where the tenant has an entry of that id.
INSERT INTO audit (tenant, run, kind, at, body, id) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, id) WHERE id IS NOT NULL DO NOTHING;

-- name: open_receipt
-- Nothing happens where the key is taken. ?11 is the token of the receipt that this one replaces. With ?12 nothing happens
-- where people have set caps on the tenant's writes, either.
INSERT INTO receipts (tenant, key, id, run, state, token, connector, opened_at, reversed_by, body)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
WHERE NOT (?12 AND EXISTS (SELECT 1 FROM items WHERE tenant = ?1 AND kind = 'write_cap' AND status = 'set'))
ON CONFLICT (tenant, key) DO UPDATE
SET id = excluded.id, run = excluded.run, state = excluded.state, token = excluded.token,
    connector = excluded.connector, opened_at = excluded.opened_at, reversed_by = excluded.reversed_by,
    body = excluded.body
WHERE receipts.state = 'failed' OR (receipts.state IN ('pending', 'unknown') AND receipts.token = ?11);

-- name: writes_of_line
-- A run and those above it, each with all by which its writes are limited, and its writes so far.
WITH RECURSIVE line (id, workflow, workspace, attributes, parent) AS (
    SELECT id, workflow, workspace, attributes, parent FROM runs WHERE tenant = ?1 AND id = ?2
    UNION ALL
    SELECT above.id, above.workflow, above.workspace, above.attributes, above.parent
    FROM line CROSS JOIN runs AS above WHERE above.tenant = ?1 AND above.id = line.parent
)
SELECT line.id, line.workflow, line.workspace,
       coalesce(CASE WHEN json_valid(attributes) THEN json_extract(attributes, '$.template') END, ''), coalesce(writes, 0)
FROM line LEFT JOIN write_counts ON write_counts.tenant = ?1 AND write_counts.run = line.id;

-- name: count_write
-- One more for a run and for those above it.
INSERT INTO write_counts (tenant, run, writes)
WITH RECURSIVE line (id, parent) AS (
    SELECT id, parent FROM runs WHERE tenant = ?1 AND id = ?2
    UNION ALL
    SELECT above.id, above.parent FROM line CROSS JOIN runs AS above WHERE above.tenant = ?1 AND above.id = line.parent
)
SELECT ?1, id, 1 FROM line WHERE true
ON CONFLICT (tenant, run) DO UPDATE SET writes = writes + 1;

-- name: close_receipt
-- A repeated closing with the same unknown outcome changes nothing.
UPDATE receipts SET state = ?4, body = ?5
WHERE tenant = ?1 AND key = ?2 AND token = ?3 AND state IN ('pending', 'unknown') AND body <> ?5;

-- name: reverse_receipt
UPDATE receipts SET reversed_by = ?3 WHERE tenant = ?1 AND id = ?2;

-- name: hold
INSERT INTO holders (tenant, receipt, run, root, position, state, at) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
    state = CASE WHEN state = 'kept' AND excluded.state = 'open' THEN state ELSE excluded.state END,
    at = max(at, excluded.at);

-- name: hold_of_doer
-- The call that did the act, which needs a row as soon as there is a second holder.
INSERT INTO holders (tenant, receipt, run, root, position, state, at) VALUES (?, ?, ?, ?, ?, 'open', ?)
ON CONFLICT DO NOTHING;

-- name: holders
-- With the standing of each holder's run, and whether that is a lane.
SELECT holders.run, holders.root, holders.position, holders.state, runs.standing, runs.program_kind = 'machine'
FROM holders LEFT JOIN runs ON runs.tenant = holders.tenant AND runs.id = holders.run
WHERE holders.tenant = ? AND receipt = ? ORDER BY holders.run, holders.root, holders.position;

-- name: held_receipts
SELECT at, body, reversed_by FROM holders JOIN receipts ON receipts.tenant = holders.tenant AND receipts.id = holders.receipt
WHERE holders.tenant = ? AND holders.run = ? AND holders.root = ? AND holders.position = ?;

-- name: receipts_in_span
SELECT body, reversed_by FROM receipts WHERE tenant = ? AND id > ? AND id < ?;

-- name: taking
SELECT name, run FROM takings WHERE tenant = ? AND receipt = ?;

-- name: take
INSERT INTO takings (tenant, receipt, name, run) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: end_taking
DELETE FROM takings WHERE tenant = ? AND receipt = ? AND name = ?;

-- name: takings_of_run
SELECT takings.name, body, reversed_by
FROM takings JOIN receipts ON receipts.tenant = takings.tenant AND receipts.id = takings.receipt
WHERE takings.tenant = ? AND takings.run = ? ORDER BY receipts.id;

-- name: orphan_receipt
INSERT INTO orphaned_receipts (tenant, id, task) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET task = excluded.task;

-- name: orphaned_receipts
SELECT orphans.tenant, orphans.id, orphans.task, body, reversed_by
FROM orphaned_receipts AS orphans LEFT JOIN receipts USING (tenant, id)
WHERE (orphans.tenant, orphans.id) > (?, ?) ORDER BY orphans.tenant, orphans.id LIMIT ?;

-- name: forget_orphans
-- Ids come as a JSON array.
DELETE FROM orphaned_receipts WHERE tenant = ?1 AND id IN (SELECT value FROM json_each(?2)) AND NOT EXISTS (
    SELECT 1 FROM receipts
    WHERE receipts.tenant = ?1 AND receipts.id = orphaned_receipts.id AND state = 'unknown'
      AND CASE WHEN json_valid(body) THEN json_extract(body, '$.asked') IS NOT NULL END
);

-- name: receipt_of_key
SELECT body, reversed_by FROM receipts WHERE tenant = ? AND key = ?;

-- name: receipt
SELECT body, reversed_by FROM receipts WHERE tenant = ? AND id = ?;

-- name: receipts_by_id
-- Ids come as a JSON array.
SELECT body, reversed_by FROM receipts WHERE tenant = ? AND id IN (SELECT value FROM json_each(?));

-- name: misfiled
-- A receipt whose columns differ from its body.
SELECT id FROM receipts
WHERE tenant = ? AND CASE WHEN json_valid(body) THEN
    (tenant, key, id, run, state, token, connector, opened_at) IS NOT (
        json_extract(body, '$.tenant'), json_extract(body, '$.key'), json_extract(body, '$.id'),
        json_extract(body, '$.run'), json_extract(body, '$.state'), json_extract(body, '$.token'),
        json_extract(body, '$.connector'), json_extract(body, '$.opened_at')
    ) ELSE 1 END
LIMIT 1;

-- name: unsuccessful_receipts
SELECT body, reversed_by FROM receipts INDEXED BY receipts_of_run
WHERE tenant = ? AND run = ? AND state <> 'succeeded' ORDER BY opened_at, id;

-- name: make_task
INSERT INTO tasks (tenant, id, run, generation, status, version, created_at, body, kind, owner, due_at, reference)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: change_task
UPDATE tasks SET run = ?3, generation = ?4, status = ?5, version = ?6, created_at = ?7, body = ?8,
    kind = ?9, owner = ?10, due_at = ?11
WHERE tenant = ?1 AND id = ?2 AND version = ?6 - 1;

-- name: set_reference_of_tasks
UPDATE tasks SET reference = ?3 WHERE tenant = ?1 AND run = ?2 AND status = 'requested';

-- name: task
SELECT body, reference FROM tasks WHERE tenant = ? AND id = ?;

-- name: tasks_by_id
-- Ids come as a JSON array.
SELECT body, reference FROM tasks WHERE tenant = ? AND id IN (SELECT value FROM json_each(?));

-- name: live_tasks
-- Of the run's present generation, without cancelled forms.
SELECT tasks.body, tasks.reference FROM runs JOIN tasks ON tasks.tenant = runs.tenant AND tasks.run = runs.id
WHERE runs.tenant = ? AND runs.id = ? AND tasks.generation = runs.generation
  AND (tasks.status <> 'cancelled' OR tasks.kind <> 'form')
ORDER BY tasks.created_at, tasks.id;

-- name: unsealed
SELECT sequence, tenant, run, kind, at, CAST(body AS BLOB), position FROM audit INDEXED BY audit_unsealed
WHERE position IS NULL ORDER BY sequence LIMIT ?;

-- name: blocks_before
-- The block at or before each place: a JSON array of tenants and positions.
SELECT json_extract(value, '$[0]'), (
    SELECT number FROM blocks WHERE tenant = json_extract(value, '$[0]') AND first <= json_extract(value, '$[1]')
    ORDER BY first DESC LIMIT 1
) FROM json_each(?);

-- name: last_signer
SELECT id FROM signing_keys ORDER BY number DESC LIMIT 1;

-- name: last_block
SELECT number, first + count FROM blocks WHERE tenant = ? ORDER BY number DESC LIMIT 1;

-- name: count_sealable
-- Sequences come as a JSON array.
SELECT count(*) FROM audit
WHERE sequence IN (SELECT value FROM json_each(?)) AND tenant = ? AND position IS NULL;

-- name: add_block
INSERT INTO blocks (tenant, number, first, count, previous, head, digests, sealed_at, signer, signature, form)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: seal
UPDATE audit SET position = ? WHERE sequence = ?;

-- name: make_due
-- The runs that these entries name. Sequences come as a JSON array.
UPDATE runs SET evidence = NULL
WHERE tenant = ?1 AND evidence IS NOT NULL
  AND id IN (SELECT run FROM audit WHERE sequence IN (SELECT value FROM json_each(?2)));

-- name: signing_keys
SELECT number, id, public, private, created_at, endorsement, chains, heads, retirement FROM signing_keys ORDER BY number;

-- name: gone_on
-- A chain that has a block after the number given for its tenant, in a JSON object.
SELECT tenant FROM blocks GROUP BY tenant
HAVING max(number) > coalesce((SELECT value FROM json_each(?1) WHERE key = tenant), 0) LIMIT 1;

-- name: add_signing_key
INSERT INTO signing_keys (number, id, public, private, created_at, endorsement, chains, heads, retirement)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: add_chain_end
INSERT INTO chain_ends (key_number, tenant, number, head) VALUES (?, ?, ?, ?);

-- name: chain_ends
SELECT tenant, number, head FROM chain_ends WHERE key_number = ? ORDER BY tenant;

-- name: sealed_behind
SELECT 1 FROM audit WHERE tenant = ? AND run = ? AND position > ? LIMIT 1;

-- name: keep_artefact
INSERT INTO artefacts (tenant, run, generation, name, sha256, size, at, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, run, generation, name) DO UPDATE
SET sha256 = excluded.sha256, size = excluded.size, at = excluded.at, data = excluded.data;

-- name: show_evidence
UPDATE runs SET evidence = ?4 WHERE tenant = ?1 AND id = ?2 AND generation = ?3;

-- name: artefacts
SELECT generation, name, sha256, size, at FROM artefacts WHERE tenant = ? AND run = ? ORDER BY at, generation, name;

-- name: artefact
SELECT data FROM artefacts WHERE tenant = ? AND run = ? AND generation = ? AND name = ?;

-- name: place_of_artefact
SELECT rowid FROM artefacts WHERE tenant = ? AND run = ? AND generation = ? AND name = ?;

-- name: kept_evidence
-- Tenants and runs come as a JSON array of arrays.
SELECT tenant, run, generation, name, CAST(sha256 AS BLOB), CAST(size AS INTEGER), at,
    CASE WHEN length(data) <= ?3 THEN CAST(data AS BLOB) ELSE x'' END
FROM artefacts
WHERE (tenant, run) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1)) AND name = ?2
ORDER BY tenant, run, generation;

-- name: evidence_due
SELECT * FROM runs WHERE governed AND evidence IS NULL AND ended_at IS NOT NULL ORDER BY ended_at LIMIT ?;

-- name: evidence_overdue
SELECT count(*) FROM runs WHERE governed AND evidence IS NULL AND ended_at IS NOT NULL AND ended_at < ?;

-- name: claim_going
-- Runs that need no place: those that have begun, and children. Functions and other kinds come as JSON arrays.
UPDATE runs SET owner = ?1, epoch = epoch + 1, ready_at = NULL, begun_at = coalesce(begun_at, ?4)
WHERE (tenant, id) IN (
    SELECT tenant, id FROM runs
    WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
      AND (parent IS NOT NULL OR begun_at IS NOT NULL)
      AND (CASE program_kind WHEN 'function' THEN workflow IN (SELECT value FROM json_each(?2))
           ELSE program_kind IN (SELECT value FROM json_each(?5)) END)
    ORDER BY priority DESC, ready_at
    LIMIT ?3
)
RETURNING *;

-- name: next_line
-- The next tenant, workspace, workflow and kind of program after these that has queued runs: one step through the
-- index.
SELECT tenant, workspace, workflow, program_kind FROM runs
WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
  AND parent IS NULL AND begun_at IS NULL AND (tenant, workspace, workflow, program_kind) > (?, ?, ?, ?)
ORDER BY tenant, workspace, workflow, program_kind LIMIT 1;

-- name: next_template
-- The next template after this one that has queued runs in a line; '' is the name of none. A number is before all.
SELECT coalesce(CASE WHEN json_valid(attributes) THEN json_extract(attributes, '$.template') END, '') FROM runs
WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
  AND parent IS NULL AND begun_at IS NULL AND tenant = ?1 AND workspace = ?2 AND workflow = ?3 AND program_kind = ?4
  AND coalesce(CASE WHEN json_valid(attributes) THEN json_extract(attributes, '$.template') END, '') > ?5
ORDER BY coalesce(CASE WHEN json_valid(attributes) THEN json_extract(attributes, '$.template') END, '')
LIMIT 1;

-- name: line
SELECT priority, ready_at, id FROM runs
WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
  AND parent IS NULL AND begun_at IS NULL AND tenant = ? AND workspace = ? AND workflow = ? AND program_kind = ?
  AND coalesce(CASE WHEN json_valid(attributes) THEN json_extract(attributes, '$.template') END, '') = ?
ORDER BY priority DESC, ready_at LIMIT ?;

-- name: under_way
SELECT workflow, workspace, '', count(*) FROM runs
WHERE parent IS NULL AND begun_at IS NOT NULL AND ended_at IS NULL AND tenant = ? AND program_kind <> 'machine'
GROUP BY workflow, workspace;

-- name: under_way_of_templates
-- The same by template, which no index alone can tell: only for tenants that have caps for templates.
SELECT workflow, workspace,
       coalesce(CASE WHEN json_valid(attributes) THEN json_extract(attributes, '$.template') END, '') AS template, count(*)
FROM runs
WHERE parent IS NULL AND begun_at IS NOT NULL AND ended_at IS NULL AND tenant = ? AND program_kind <> 'machine'
GROUP BY workflow, workspace, template;

-- name: begun_since
SELECT workflow, workspace,
       coalesce(CASE WHEN json_valid(attributes) THEN json_extract(attributes, '$.template') END, ''), begun_at
FROM runs
WHERE parent IS NULL AND begun_at IS NOT NULL AND tenant = ? AND begun_at > ? AND program_kind <> 'machine'
ORDER BY begun_at;

-- name: write_caps
SELECT id, body FROM items WHERE tenant = ? AND kind = 'write_cap' AND status = 'set';

-- name: set_caps
SELECT tenant, id, body FROM items WHERE kind = 'cap' AND status = 'set';

-- name: begin
UPDATE runs SET owner = ?3, epoch = epoch + 1, ready_at = NULL, begun_at = ?4 WHERE tenant = ?1 AND id = ?2
RETURNING *;
