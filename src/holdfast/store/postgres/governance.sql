-- The statements of the gate: receipts, tasks, the audit, keys, files; and of admission within limits.
-- As in ``statements.sql``, sets come as one array per column, sorted by key.

-- name: lock_governed
-- Like lock_runs, for batches that touch several receipts or tasks: runs first, then receipts, then tasks, each by key.
WITH locked_runs AS (
    SELECT FROM runs JOIN unnest($1::text[], $2::text[]) AS given (tenant, id) USING (tenant, id)
    ORDER BY runs.tenant, runs.id FOR NO KEY UPDATE OF runs
), locked_receipts AS (
    SELECT FROM receipts JOIN unnest($3::text[], $4::text[]) AS given (tenant, key) USING (tenant, key)
    ORDER BY receipts.tenant, receipts.key FOR NO KEY UPDATE OF receipts
), locked_tasks AS (
    SELECT FROM tasks JOIN unnest($5::text[], $6::text[]) AS given (tenant, id) USING (tenant, id)
    ORDER BY tasks.tenant, tasks.id FOR NO KEY UPDATE OF tasks
)
SELECT (SELECT count(*) FROM locked_runs), (SELECT count(*) FROM locked_receipts), (SELECT count(*) FROM locked_tasks);

-- name: note
-- Entries are numbered in the order given.
INSERT INTO audit (tenant, run, kind, at, body)
SELECT tenant, run, kind, at, body
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[])
     WITH ORDINALITY AS given (tenant, run, kind, at, body, ordinal)
ORDER BY ordinal;

-- name: note_once
-- The same for entries with ids: an id that its tenant has already is not written again. This is a separate statement,
-- because the check for conflicts costs another log record for every row, even for rows without an id.
INSERT INTO audit (tenant, run, kind, at, body, id)
SELECT tenant, run, kind, at, body, id
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::text[])
     WITH ORDINALITY AS given (tenant, run, kind, at, body, id, ordinal)
ORDER BY ordinal
ON CONFLICT (tenant, id) WHERE id IS NOT NULL DO NOTHING;

-- name: open_receipt
-- Gives the keys that are reserved now. A receipt that is not replaced stays locked, to be read by receipts_at. While
-- another transaction opens the same key, this statement waits for it and then judges its result. What counts as a write
-- of a tenant where people have set caps on writes is not looked at, and given as capped.
WITH given AS (
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::text[], $8::text[], $9::bigint[],
        $10::text[], $11::text[], $12::text[], $13::boolean[]
    ) AS given (tenant, key, id, run, root, position, state, token, opened_at, reversed_by, body, instead_of, counts)
), judged AS (
    SELECT *, counts AND (
        SELECT true FROM items WHERE items.tenant = given.tenant AND kind = 'write_cap' AND status = 'set' LIMIT 1
    ) IS NOT NULL AS capped FROM given
), opened AS (
INSERT INTO receipts AS there (tenant, key, id, run, root, position, state, token, opened_at, reversed_by, body)
SELECT tenant, key, id, run, root, position, state, token, opened_at, reversed_by, body FROM judged WHERE NOT capped
ORDER BY tenant, key
ON CONFLICT (tenant, key) DO UPDATE
SET id = excluded.id, run = excluded.run, root = excluded.root, position = excluded.position, state = excluded.state,
    token = excluded.token, opened_at = excluded.opened_at, reversed_by = excluded.reversed_by, body = excluded.body
WHERE there.state = 'failed' OR there.state IN ('pending', 'unknown') AND there.token = (
    SELECT instead_of FROM given WHERE given.tenant = excluded.tenant AND given.key = excluded.key
) AND NOT (there.state = 'pending' AND there.token = excluded.token)
RETURNING there.tenant, there.key
)
SELECT tenant, key, false AS capped FROM opened UNION ALL SELECT tenant, key, true FROM judged WHERE capped;

-- name: writes_of_lines
-- Runs and those above each, with all by which their writes are limited, and their writes so far. All of them are locked.
WITH RECURSIVE line (tenant, below, id, level) AS (
    SELECT tenant, id, id COLLATE "C", 0 FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
    UNION ALL
    SELECT line.tenant, line.below, runs.parent, level + 1
    FROM line JOIN runs ON runs.tenant = line.tenant AND runs.id = line.id
    WHERE runs.parent IS NOT NULL
)
SELECT runs.tenant, line.below, runs.id, runs.workflow, runs.workspace, coalesce(runs.attributes ->> 'template', '') AS template,
       coalesce(write_counts.writes, 0) AS writes
FROM line
JOIN runs ON runs.tenant = line.tenant AND runs.id = line.id
LEFT JOIN write_counts ON write_counts.tenant = line.tenant AND write_counts.run = line.id
ORDER BY runs.tenant, line.below, level;

-- name: count_writes
-- Adds to the counts of runs and of those above each. All of them are locked.
INSERT INTO write_counts AS there (tenant, run, writes)
WITH RECURSIVE line (tenant, id, writes) AS (
    SELECT tenant, id COLLATE "C", writes
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS given (tenant, id, writes)
    UNION ALL
    SELECT line.tenant, runs.parent, line.writes
    FROM line JOIN runs ON runs.tenant = line.tenant AND runs.id = line.id
    WHERE runs.parent IS NOT NULL
)
SELECT runs.tenant, runs.id, sum(line.writes)
FROM line JOIN runs ON runs.tenant = line.tenant AND runs.id = line.id
GROUP BY runs.tenant, runs.id ORDER BY runs.tenant, runs.id
ON CONFLICT (tenant, run) DO UPDATE SET writes = there.writes + excluded.writes;

-- name: receipts_at
SELECT receipts.tenant, receipts.key, token, state, body, reversed_by
FROM unnest($1::text[], $2::text[]) AS given (tenant, key) JOIN receipts USING (tenant, key);

-- name: lock_receipt
-- Holders and takings of a receipt change only while it is locked.
SELECT body, reversed_by FROM receipts WHERE tenant = $1 AND id = $2 FOR NO KEY UPDATE;

-- name: hold
INSERT INTO holders AS there (tenant, receipt, run, root, position, state, at) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant, receipt, run, root, position) DO UPDATE
SET state = CASE WHEN there.state = 'kept' AND excluded.state = 'open' THEN there.state ELSE excluded.state END,
    at = greatest(there.at, excluded.at);

-- name: hold_of_doer
-- The call that did the act, which needs a row as soon as there is a second holder.
INSERT INTO holders (tenant, receipt, run, root, position, state, at) VALUES ($1, $2, $3, $4, $5, 'open', $6)
ON CONFLICT DO NOTHING;

-- name: holders
-- With the standing of each holder's run, and whether that is a lane.
SELECT holders.run, holders.root, holders.position, holders.state, runs.standing,
       coalesce(runs.program_kind = 'machine', false) AS is_lane
FROM holders LEFT JOIN runs ON runs.tenant = holders.tenant AND runs.id = holders.run
WHERE holders.tenant = $1 AND receipt = $2 ORDER BY holders.run, holders.root, holders.position;

-- name: acts_of
-- The receipts that these calls hold, and those whose ids are in their spans.
WITH given AS (
    SELECT * FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::text[], $6::text[]) WITH ORDINALITY
    AS given (run, root, position, since, until, number)
)
SELECT number, holders.at AS held_at, body, reversed_by
FROM given JOIN holders ON holders.tenant = $1 AND holders.run = given.run COLLATE "C"
    AND holders.root = given.root AND holders.position = given.position
JOIN receipts ON receipts.tenant = $1 AND receipts.id = holders.receipt
UNION ALL
SELECT number, NULL, body, reversed_by
FROM given JOIN receipts ON receipts.tenant = $1 AND id > since COLLATE "C" AND id < until COLLATE "C";

-- name: taking
SELECT name, run FROM takings WHERE tenant = $1 AND receipt = $2;

-- name: take
INSERT INTO takings (tenant, receipt, name, run) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING;

-- name: end_taking
DELETE FROM takings WHERE tenant = $1 AND receipt = $2 AND name = $3 RETURNING name;

-- name: reverse_receipt
UPDATE receipts SET reversed_by = $3 WHERE tenant = $1 AND id = $2;

-- name: close_receipt
-- Gives the keys whose receipts this statement closed, not those that were closed before.
WITH given AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
    AS given (tenant, key, token, state, body, id, reverses)
), locked AS (
    SELECT given.* FROM given JOIN receipts USING (tenant, key)
    ORDER BY given.tenant, given.key FOR NO KEY UPDATE OF receipts
), closed AS (
    UPDATE receipts SET state = given.state, body = given.body
    FROM locked AS given
    WHERE receipts.tenant = given.tenant AND receipts.key = given.key AND receipts.token = given.token
      AND receipts.state IN ('pending', 'unknown') AND receipts.body <> given.body
    RETURNING receipts.tenant, receipts.key, given.state, given.id, given.reverses
), reversed AS (
    UPDATE receipts SET reversed_by = closed.id
    FROM closed
    WHERE closed.state = 'succeeded' AND receipts.tenant = closed.tenant AND receipts.id = closed.reverses
)
SELECT tenant, key FROM closed;

-- name: orphan_receipts
INSERT INTO orphaned_receipts (tenant, id, task)
SELECT tenant, id, task FROM unnest($1::text[], $2::text[], $3::text[]) AS given (tenant, id, task) ORDER BY tenant, id
ON CONFLICT (tenant, id) DO UPDATE SET task = excluded.task;

-- name: orphaned_receipts
SELECT orphans.tenant, orphans.id, orphans.task, body, reversed_by
FROM orphaned_receipts AS orphans LEFT JOIN receipts USING (tenant, id)
WHERE (orphans.tenant, orphans.id) > ($1 COLLATE "C", $2 COLLATE "C") ORDER BY orphans.tenant, orphans.id LIMIT $3;

-- name: forget_orphans
DELETE FROM orphaned_receipts WHERE tenant = $1 AND id = ANY($2::text[]) AND NOT EXISTS (
    SELECT FROM receipts
    WHERE receipts.tenant = $1 AND receipts.id = orphaned_receipts.id AND state = 'unknown'
      AND position('"asked":"' IN body) > 0
);

-- name: put_task
-- Gives the tasks that this statement made or changed. A task that is there keeps its reference.
INSERT INTO tasks AS there (tenant, id, run, generation, status, version, created_at, body, kind, owner, due_at, reference)
SELECT tenant, id, run, generation, status, version, created_at, body, kind, owner, due_at, reference
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::text[],
            $9::text[], $10::text[], $11::bigint[], $12::text[])
     AS given (tenant, id, run, generation, status, version, created_at, body, kind, owner, due_at, reference)
WHERE version = 1 OR EXISTS (SELECT FROM tasks WHERE tasks.tenant = given.tenant AND tasks.id = given.id)
ORDER BY tenant, id
ON CONFLICT (tenant, id) DO UPDATE
SET run = excluded.run, generation = excluded.generation, status = excluded.status, version = excluded.version,
    created_at = excluded.created_at, body = excluded.body, kind = excluded.kind, owner = excluded.owner,
    due_at = excluded.due_at
WHERE there.version = excluded.version - 1
RETURNING there.tenant, there.id;

-- name: lock_tasks
-- Like tasks_at, but locked until the transaction ends.
SELECT tasks.tenant, tasks.id, body, reference
FROM unnest($1::text[], $2::text[]) AS given (tenant, id) JOIN tasks USING (tenant, id)
ORDER BY tasks.tenant, tasks.id FOR NO KEY UPDATE OF tasks;

-- name: tasks_at
SELECT tasks.tenant, tasks.id, body, reference FROM unnest($1::text[], $2::text[]) AS given (tenant, id) JOIN tasks USING (tenant, id);

-- name: governed
-- Receipts that have not succeeded, those that the run has taken to undo their acts, and the tasks of the present
-- generation without cancelled forms.
WITH given AS (
    SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS given (tenant, run)
)
SELECT tenant, run, true AS is_receipt, body, reversed_by, NULL AS reference, opened_at AS since, receipts.id,
       NULL AS taking
FROM given JOIN receipts USING (tenant, run) WHERE state <> 'succeeded'
UNION ALL
SELECT given.tenant, given.run, true, body, reversed_by, NULL, opened_at, receipts.id, takings.name
FROM given JOIN takings USING (tenant, run)
JOIN receipts ON receipts.tenant = takings.tenant AND receipts.id = takings.receipt
UNION ALL
SELECT given.tenant, given.run, false, body, NULL, tasks.reference, tasks.created_at, tasks.id, NULL
FROM given
JOIN runs ON runs.tenant = given.tenant AND runs.id = given.run
JOIN tasks ON tasks.tenant = runs.tenant AND tasks.run = runs.id AND tasks.generation = runs.generation
WHERE tasks.status <> 'cancelled' OR tasks.kind <> 'form'
ORDER BY since, tenant, id;

-- name: receipt_of_key
SELECT body, reversed_by FROM receipts WHERE tenant = $1 AND key = $2;

-- name: receipt
SELECT body, reversed_by FROM receipts WHERE tenant = $1 AND id = $2;

-- name: receipts_by_id
SELECT body, reversed_by FROM receipts WHERE tenant = $1 AND id = ANY ($2::text[]);

-- name: task
SELECT body, reference FROM tasks WHERE tenant = $1 AND id = $2;

-- name: tasks_by_id
SELECT body, reference FROM tasks WHERE tenant = $1 AND id = ANY ($2::text[]);

-- name: entries
-- Sealed entries by their position, then the others by their sequence, each from a separate index. The entry $7 after
-- which the page begins may have been sealed since it was read: its present place counts.
WITH after AS (
    SELECT sequence, position FROM audit WHERE sequence = $7
), sealed AS (
    SELECT sequence, tenant, run, kind, at, body, position FROM audit
    WHERE tenant = $1 AND position IS NOT NULL
      AND ($2::text IS NULL OR run = $2) AND ($3::text IS NULL OR kind = $3)
      AND ($4::bigint IS NULL OR at >= $4) AND ($5::bigint IS NULL OR at < $5)
      AND ($7::bigint IS NULL OR position > (SELECT position FROM after))
    ORDER BY position LIMIT $6
), others AS (
    SELECT sequence, tenant, run, kind, at, body, position FROM audit
    WHERE tenant = $1 AND position IS NULL
      AND ($2::text IS NULL OR run = $2) AND ($3::text IS NULL OR kind = $3)
      AND ($4::bigint IS NULL OR at >= $4) AND ($5::bigint IS NULL OR at < $5)
      AND ($7::bigint IS NULL OR sequence > coalesce((SELECT sequence FROM after WHERE position IS NULL), 0))
    ORDER BY sequence LIMIT $6
)
SELECT * FROM sealed UNION ALL SELECT * FROM others ORDER BY position NULLS LAST, sequence LIMIT $6;

-- name: last_entries
-- The same from the end on: the others by their sequence, then sealed entries by their position, both backwards.
WITH before AS (
    SELECT sequence, position FROM audit WHERE sequence = $7
), sealed AS (
    SELECT sequence, tenant, run, kind, at, body, position FROM audit
    WHERE tenant = $1 AND position IS NOT NULL
      AND ($2::text IS NULL OR run = $2) AND ($3::text IS NULL OR kind = $3)
      AND ($4::bigint IS NULL OR at >= $4) AND ($5::bigint IS NULL OR at < $5)
      AND ((SELECT position FROM before) IS NULL OR position < (SELECT position FROM before))
    ORDER BY position DESC LIMIT $6
), others AS (
    SELECT sequence, tenant, run, kind, at, body, position FROM audit
    WHERE tenant = $1 AND position IS NULL
      AND ($2::text IS NULL OR run = $2) AND ($3::text IS NULL OR kind = $3)
      AND ($4::bigint IS NULL OR at >= $4) AND ($5::bigint IS NULL OR at < $5)
      AND ($7::bigint IS NULL OR sequence < coalesce((SELECT sequence FROM before WHERE position IS NULL), 0))
    ORDER BY sequence DESC LIMIT $6
)
SELECT * FROM others UNION ALL SELECT * FROM sealed ORDER BY position DESC NULLS FIRST, sequence DESC LIMIT $6;

-- name: unsealed
SELECT sequence, tenant, run, kind, at, body, position FROM audit WHERE position IS NULL ORDER BY sequence LIMIT $1;

-- name: blocks
-- From number $2 on; where that is negative, the last -$2 blocks.
SELECT tenant, number, first, count, previous, head, digests, sealed_at, signer, signature, form FROM blocks
WHERE tenant = $1 AND number >= CASE WHEN $2::bigint >= 0 THEN $2 ELSE (
    SELECT min(number) FROM (
        SELECT number FROM blocks WHERE tenant = $1 ORDER BY number DESC LIMIT greatest(-$2, 0)
    ) AS last
) END
ORDER BY number LIMIT $3;

-- name: entries_in
-- The entries of runs, each between two times. They are read run by run from the index: the planner must not choose to
-- read the whole audit in the order of its sequences.
SELECT found.* FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[])
    AS given (tenant, run, since, until, kind)
CROSS JOIN LATERAL (
    SELECT sequence, tenant, run, kind, at, body, position FROM audit
    WHERE audit.tenant = given.tenant AND audit.run = given.run AND sequence > $7
      AND (given.since IS NULL OR at >= given.since) AND (given.until IS NULL OR at < given.until)
      AND (given.kind IS NULL OR audit.kind = given.kind)
    ORDER BY sequence LIMIT $6
) AS found
ORDER BY sequence LIMIT $6;

-- name: entries_of_tasks
SELECT sequence, tenant, run, kind, at, body, position FROM audit
WHERE kind = 'approval' AND tenant = $1
  AND substring(encode(body, 'escape') FROM '"task":"([^"]*)"') = ANY ($2::text[])
ORDER BY sequence;

-- name: heads
SELECT last.* FROM unnest($1::text[]) AS given (tenant) CROSS JOIN LATERAL (
    SELECT tenant, number, first, count, previous, head, ''::bytea AS digests, sealed_at, signer, signature, form
    FROM blocks WHERE blocks.tenant = given.tenant ORDER BY number DESC LIMIT 1
) AS last ORDER BY tenant;

-- name: all_heads
SELECT DISTINCT ON (tenant)
    tenant, number, first, count, previous, head, ''::bytea AS digests, sealed_at, signer, signature, form
FROM blocks ORDER BY tenant, number DESC;

-- name: blocks_before
-- The block at or before each place, each once.
WITH near AS MATERIALIZED (
    SELECT DISTINCT given.tenant, (
        SELECT number FROM blocks WHERE blocks.tenant = given.tenant AND first <= given.at ORDER BY first DESC LIMIT 1
    ) AS number FROM unnest($1::text[], $2::bigint[]) AS given (tenant, at)
)
SELECT found.* FROM near CROSS JOIN LATERAL (
    SELECT tenant, number, first, count, previous, head, digests, sealed_at, signer, signature, form FROM blocks
    WHERE blocks.tenant = near.tenant AND blocks.number = near.number OFFSET 0
) AS found
ORDER BY tenant, number;

-- name: lock_chains
-- Sealing, adding a key and keeping evidence are done one after the other: none would see the other's uncommitted work.
-- One lock for the chains of all tenants: a lock for each would not fit into the server's lock table.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast chains ' || current_schema(), 0));

-- name: share_chains
-- Shared: several processes may keep evidence at the same time.
SELECT pg_advisory_xact_lock_shared(hashtextextended('holdfast chains ' || current_schema(), 0));

-- name: ends
-- The ends of the chains of these tenants.
SELECT last.* FROM unnest($1::text[]) AS given (tenant) CROSS JOIN LATERAL (
    SELECT tenant, number, first + count AS following
    FROM blocks WHERE blocks.tenant = given.tenant ORDER BY number DESC LIMIT 1
) AS last;

-- name: last_signer
SELECT id FROM signing_keys ORDER BY number DESC LIMIT 1;

-- name: sealable
SELECT sequence, tenant FROM audit WHERE sequence = ANY ($1::bigint[]) AND position IS NULL;

-- name: add_blocks
INSERT INTO blocks (tenant, number, first, count, previous, head, digests, sealed_at, signer, signature, form)
SELECT * FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bigint[], $9::text[],
    $10::bytea[], $11::integer[]
)
ON CONFLICT DO NOTHING
RETURNING number;

-- name: seal
-- Gives the entries these positions, and returns the runs that they name.
WITH sealed AS (
    UPDATE audit SET position = given.position
    FROM unnest($1::bigint[], $2::bigint[]) AS given (position, sequence)
    WHERE audit.sequence = given.sequence
    RETURNING audit.tenant, audit.run
)
SELECT DISTINCT tenant, run FROM sealed WHERE run IS NOT NULL;

-- name: make_due
WITH proved AS (
    SELECT tenant, id FROM runs JOIN unnest($1::text[], $2::text[]) AS given (tenant, id) USING (tenant, id)
    WHERE evidence IS NOT NULL
    ORDER BY tenant, id FOR NO KEY UPDATE OF runs
)
UPDATE runs SET evidence = NULL FROM proved WHERE runs.tenant = proved.tenant AND runs.id = proved.id;

-- name: signing_keys
SELECT number, id, public, private, created_at, endorsement, chains, heads, retirement FROM signing_keys ORDER BY number;

-- name: gone_on
-- A chain that has a block after the number given for its tenant.
SELECT tenant FROM (SELECT tenant, max(number) AS number FROM blocks GROUP BY tenant) AS last
LEFT JOIN unnest($1::text[], $2::bigint[]) AS given (tenant, reached) USING (tenant)
WHERE number > coalesce(reached, 0) LIMIT 1;

-- name: add_signing_key
-- With an entry of the audit where its body ($14) is given.
WITH added AS (
    INSERT INTO signing_keys (number, id, public, private, created_at, endorsement, chains, heads, retirement)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING number
), noted AS (
    INSERT INTO audit (tenant, run, kind, at, body)
    SELECT $10, $11, $12, $13, $14 FROM added WHERE $14::bytea IS NOT NULL
)
SELECT number FROM added;

-- name: add_chain_ends
INSERT INTO chain_ends (key_number, tenant, number, head)
SELECT $1, tenant, number, head FROM unnest($2::text[], $3::bigint[], $4::bytea[]) AS given (tenant, number, head);

-- name: chain_ends
SELECT tenant, number, head FROM chain_ends WHERE key_number = $1 ORDER BY tenant;

-- name: keep_artefacts
-- $9: it is the evidence of its generation, with the entries up to $10, and shows in the run's row while that generation is
-- the present one. Evidence is not kept where a later entry of the run was sealed. Rows of runs are locked in the order
-- that all batches share.
WITH given AS (
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::bigint[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bytea[],
        $9::boolean[], $10::bigint[]
    ) AS given (tenant, run, generation, name, sha256, size, at, data, is_evidence, through)
), wanted AS (
    SELECT * FROM given WHERE NOT (is_evidence AND EXISTS (
        SELECT FROM audit WHERE audit.tenant = given.tenant AND audit.run = given.run AND position > through
    ))
), kept AS (
    INSERT INTO artefacts (tenant, run, generation, name, sha256, size, at, data)
    SELECT tenant, run, generation, name, sha256, size, at, data FROM wanted ORDER BY tenant, run, generation, name
    ON CONFLICT (tenant, run, generation, name) DO UPDATE
    SET sha256 = excluded.sha256, size = excluded.size, at = excluded.at, data = excluded.data
    RETURNING tenant, run, generation, name
), locked AS (
    SELECT runs.tenant, runs.id, wanted.sha256
    FROM runs JOIN wanted ON runs.tenant = wanted.tenant AND runs.id = wanted.run AND runs.generation = wanted.generation
    WHERE is_evidence
    ORDER BY runs.tenant, runs.id FOR NO KEY UPDATE OF runs
), shown AS (
    UPDATE runs SET evidence = locked.sha256 FROM locked WHERE runs.tenant = locked.tenant AND runs.id = locked.id
)
SELECT tenant, run, generation, name FROM kept;

-- name: artefacts
SELECT tenant, run, generation, name, sha256, size, at FROM artefacts
WHERE tenant = $1 AND run = $2 ORDER BY at, generation, name;

-- name: artefact
SELECT data FROM artefacts WHERE tenant = $1 AND run = $2 AND generation = $3 AND name = $4;

-- name: artefact_part
SELECT substring(data FROM $5::integer FOR $6::integer) AS data FROM artefacts
WHERE tenant = $1 AND run = $2 AND generation = $3 AND name = $4;

-- name: kept_evidence
SELECT found.* FROM unnest($1::text[], $2::text[]) AS given (tenant, run) CROSS JOIN LATERAL (
    SELECT tenant, run, generation, name, sha256, size, at,
        CASE WHEN octet_length(data) <= $4::bigint THEN data ELSE ''::bytea END AS data
    FROM artefacts
    WHERE artefacts.tenant = given.tenant AND artefacts.run = given.run AND name = $3 OFFSET 0
) AS found
ORDER BY tenant, run, generation;

-- name: evidence_due
SELECT * FROM runs WHERE governed AND evidence IS NULL AND ended_at IS NOT NULL ORDER BY ended_at, tenant, id LIMIT $1;

-- name: filed
-- A page of receipts, by key, with the columns by which they are found.
SELECT tenant, key, id, run, root, position, state, token, opened_at, reversed_by, body FROM receipts
WHERE tenant = $1 AND key > $2 ORDER BY key LIMIT $3;

-- name: evidence_overdue
SELECT count(*) FROM runs WHERE governed AND evidence IS NULL AND ended_at IS NOT NULL AND ended_at < $1;

-- name: lock_admission
SELECT pg_advisory_xact_lock(hashtextextended('holdfast admission ' || current_schema(), 0));

-- name: claim_begun
-- Like claim, without the root runs that have not begun.
WITH ready AS (
    SELECT tenant, id, ready_at FROM runs
    WHERE (begun_at IS NOT NULL OR parent IS NOT NULL)
      AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL AND (
          program_kind = 'function' AND workflow = ANY ($2::text[]) OR program_kind = ANY ($5::text[])
      )
    ORDER BY priority DESC, ready_at, tenant, id
    LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
), claimed AS (
    UPDATE runs SET owner = $1, epoch = epoch + 1, ready_at = NULL, begun_at = coalesce(begun_at, $4)
    FROM ready WHERE runs.tenant = ready.tenant AND runs.id = ready.id
    RETURNING runs.*, ready.ready_at AS since
)
SELECT claimed.*, (
    SELECT min(wake_at) FROM runs
    WHERE wake_at IS NOT NULL AND owner IS NULL AND ended_at IS NULL
      AND NOT EXISTS (SELECT FROM claimed WHERE claimed.tenant = runs.tenant AND claimed.id = runs.id)
) AS next_wake_at
FROM (SELECT) AS always LEFT JOIN claimed ON true
ORDER BY claimed.priority DESC, since, claimed.tenant, claimed.id;

-- name: candidates
-- The first few of every line of root runs that have not begun. A line is a tenant's runs of one workspace, program and
-- template: a program at its cap must not hide the others after it, nor a full workspace another. Lines are found by jumps
-- through the index, so their length costs nothing.
WITH RECURSIVE lines AS (
    (
        SELECT tenant, workspace, workflow, program_kind, coalesce(attributes ->> 'template', '') COLLATE "C" AS template FROM runs
        WHERE begun_at IS NULL AND parent IS NULL AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL
          AND ended_at IS NULL
        ORDER BY tenant, workspace, workflow, program_kind, coalesce(attributes ->> 'template', '') COLLATE "C" LIMIT 1
    )
    UNION ALL
    SELECT following.* FROM lines CROSS JOIN LATERAL (
        SELECT tenant, workspace, workflow, program_kind, coalesce(attributes ->> 'template', '') COLLATE "C" AS template FROM runs
        WHERE begun_at IS NULL AND parent IS NULL AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL
          AND ended_at IS NULL AND (tenant, workspace, workflow, program_kind, coalesce(attributes ->> 'template', '') COLLATE "C")
              > (lines.tenant, lines.workspace, lines.workflow, lines.program_kind, lines.template)
        ORDER BY tenant, workspace, workflow, program_kind, coalesce(attributes ->> 'template', '') COLLATE "C" LIMIT 1
    ) AS following
)
SELECT waiting.tenant, waiting.id, lines.workflow, lines.workspace, waiting.priority, lines.template
FROM lines CROSS JOIN LATERAL (
    SELECT tenant, id, priority, ready_at FROM runs
    WHERE begun_at IS NULL AND parent IS NULL AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL
      AND ended_at IS NULL AND tenant = lines.tenant AND workspace = lines.workspace
      AND workflow = lines.workflow AND program_kind = lines.program_kind
      AND coalesce(attributes ->> 'template', '') COLLATE "C" = lines.template
    ORDER BY priority DESC, ready_at, id LIMIT $2
) AS waiting
WHERE CASE lines.program_kind WHEN 'function' THEN lines.workflow = ANY ($1::text[])
      ELSE lines.program_kind = ANY ($3::text[]) END
ORDER BY waiting.tenant, waiting.priority DESC, waiting.ready_at, waiting.id;

-- name: loads
-- The runs of tenants $1 that are under way, and the starts after $3 of the runs of tenants $2, which have a rate.
SELECT tenant, workflow, workspace, '' AS template, count(*) AS under_way, '{}'::bigint[] AS begun FROM runs
WHERE tenant = ANY ($1::text[]) AND begun_at IS NOT NULL AND parent IS NULL AND ended_at IS NULL
    AND program_kind <> 'machine'
GROUP BY tenant, workflow, workspace
UNION ALL
SELECT tenant, workflow, workspace, '', 0, array_agg(begun_at) FROM runs
WHERE tenant = ANY ($2::text[]) AND begun_at > $3 AND parent IS NULL AND program_kind <> 'machine'
GROUP BY tenant, workflow, workspace;

-- name: loads_of_templates
-- The same by template, which no index alone can tell: only where a tenant has caps for templates.
SELECT tenant, workflow, workspace, coalesce(attributes ->> 'template', '') COLLATE "C" AS template, count(*) AS under_way,
       '{}'::bigint[] AS begun
FROM runs
WHERE tenant = ANY ($1::text[]) AND begun_at IS NOT NULL AND parent IS NULL AND ended_at IS NULL
    AND program_kind <> 'machine'
GROUP BY tenant, workflow, workspace, coalesce(attributes ->> 'template', '') COLLATE "C"
UNION ALL
SELECT tenant, workflow, workspace, coalesce(attributes ->> 'template', '') COLLATE "C", 0, array_agg(begun_at) FROM runs
WHERE tenant = ANY ($2::text[]) AND begun_at > $3 AND parent IS NULL AND program_kind <> 'machine'
GROUP BY tenant, workflow, workspace, coalesce(attributes ->> 'template', '') COLLATE "C";

-- name: write_caps
SELECT tenant, id, body FROM items WHERE tenant = ANY ($1::text[]) AND kind = 'write_cap' AND status = 'set';

-- name: set_caps
SELECT tenant, id, body FROM items WHERE kind = 'cap' AND status = 'set';

-- name: claim_admitted
-- In the given order. A run that is locked now is about to change, and is left to the next claim.
WITH locked AS (
    SELECT runs.tenant, runs.id, ordinal,
           begun_at IS NULL AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL AS free
    FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS given (tenant, id, ordinal) JOIN runs USING (tenant, id)
    FOR NO KEY UPDATE OF runs SKIP LOCKED
), claimed AS (
    UPDATE runs SET owner = $1, epoch = epoch + 1, ready_at = NULL, begun_at = $4
    FROM locked WHERE runs.tenant = locked.tenant AND runs.id = locked.id AND locked.free
    RETURNING runs.*, ordinal
)
SELECT * FROM claimed ORDER BY ordinal;
