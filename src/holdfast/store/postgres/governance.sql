-- The statements of what the gate keeps: receipts, tasks, the audit, keys, artefacts; and of admission within limits.
-- As in ``statements.sql``, sets come as one array per column, sorted by key.

-- name: lock_governed
-- As lock_runs, for batches that touch several receipts or tasks: runs first, then receipts, then tasks, each by key.
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
-- The same where some have an id: of an id that its tenant has already, nothing is written. A statement of its own,
-- because looking for conflicts costs every row another record in the log, also those that cannot have one.
INSERT INTO audit (tenant, run, kind, at, body, id)
SELECT tenant, run, kind, at, body, id
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::text[])
     WITH ORDINALITY AS given (tenant, run, kind, at, body, id, ordinal)
ORDER BY ordinal
ON CONFLICT (tenant, id) WHERE id IS NOT NULL DO NOTHING;

-- name: open_receipt
-- Gives the keys that are reserved now. A receipt that does not give way stays locked, to be looked at by receipts_at.
-- Whoever meets a transaction that is opening the same key waits for it, and then judges what that one has left.
WITH given AS (
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::text[], $8::text[], $9::bigint[],
        $10::text[], $11::text[], $12::text[]
    ) AS given (tenant, key, id, run, root, position, state, token, opened_at, reversed_by, body, instead_of)
)
INSERT INTO receipts AS there (tenant, key, id, run, root, position, state, token, opened_at, reversed_by, body)
SELECT tenant, key, id, run, root, position, state, token, opened_at, reversed_by, body FROM given ORDER BY tenant, key
ON CONFLICT (tenant, key) DO UPDATE
SET id = excluded.id, run = excluded.run, root = excluded.root, position = excluded.position, state = excluded.state,
    token = excluded.token, opened_at = excluded.opened_at, reversed_by = excluded.reversed_by, body = excluded.body
WHERE there.state = 'failed' OR there.state IN ('pending', 'unknown') AND there.token = (
    SELECT instead_of FROM given WHERE given.tenant = excluded.tenant AND given.key = excluded.key
) AND NOT (there.state = 'pending' AND there.token = excluded.token)
RETURNING there.tenant, there.key;

-- name: writes_of_lines
-- Runs and those above each, with their workflows and writes so far. All of them are locked.
WITH RECURSIVE line (tenant, below, id, level) AS (
    SELECT tenant, id, id COLLATE "C", 0 FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
    UNION ALL
    SELECT line.tenant, line.below, runs.parent, level + 1
    FROM line JOIN runs ON runs.tenant = line.tenant AND runs.id = line.id
    WHERE runs.parent IS NOT NULL
)
SELECT runs.tenant, line.below, runs.id, runs.workflow, coalesce(write_counts.writes, 0) AS writes
FROM line
JOIN runs ON runs.tenant = line.tenant AND runs.id = line.id
LEFT JOIN write_counts ON write_counts.tenant = line.tenant AND write_counts.run = line.id
ORDER BY runs.tenant, line.below, level;

-- name: count_writes
-- So many more for runs and for those above each. All of them are locked.
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

-- name: close_receipt
-- Gives the keys whose receipts are closed by this very statement, not those that had been closed so before.
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

-- name: put_task
-- Gives the tasks made or changed by this very statement.
INSERT INTO tasks AS there (tenant, id, run, generation, status, version, created_at, body, kind, owner, due_at)
SELECT tenant, id, run, generation, status, version, created_at, body, kind, owner, due_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::text[],
            $9::text[], $10::text[], $11::bigint[])
     AS given (tenant, id, run, generation, status, version, created_at, body, kind, owner, due_at)
WHERE version = 1 OR EXISTS (SELECT FROM tasks WHERE tasks.tenant = given.tenant AND tasks.id = given.id)
ORDER BY tenant, id
ON CONFLICT (tenant, id) DO UPDATE
SET run = excluded.run, generation = excluded.generation, status = excluded.status, version = excluded.version,
    created_at = excluded.created_at, body = excluded.body, kind = excluded.kind, owner = excluded.owner,
    due_at = excluded.due_at
WHERE there.version = excluded.version - 1
RETURNING there.tenant, there.id;

-- name: lock_tasks
-- As tasks_at. They stay as they are until the transaction ends.
SELECT tasks.tenant, tasks.id, body
FROM unnest($1::text[], $2::text[]) AS given (tenant, id) JOIN tasks USING (tenant, id)
ORDER BY tasks.tenant, tasks.id FOR NO KEY UPDATE OF tasks;

-- name: tasks_at
SELECT tasks.tenant, tasks.id, body FROM unnest($1::text[], $2::text[]) AS given (tenant, id) JOIN tasks USING (tenant, id);

-- name: governed
-- Receipts that have not succeeded, and live tasks of the present generation.
WITH given AS (
    SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS given (tenant, run)
)
SELECT tenant, run, true AS is_receipt, body, reversed_by, opened_at AS since, receipts.id
FROM given JOIN receipts USING (tenant, run) WHERE state <> 'succeeded'
UNION ALL
SELECT given.tenant, given.run, false, body, NULL, tasks.created_at, tasks.id
FROM given
JOIN runs ON runs.tenant = given.tenant AND runs.id = given.run
JOIN tasks ON tasks.tenant = runs.tenant AND tasks.run = runs.id AND tasks.generation = runs.generation
WHERE tasks.status <> 'cancelled'
ORDER BY since, tenant, id;

-- name: receipt_of_key
SELECT body, reversed_by FROM receipts WHERE tenant = $1 AND key = $2;

-- name: receipt
SELECT body, reversed_by FROM receipts WHERE tenant = $1 AND id = $2;

-- name: receipts_by_id
SELECT body, reversed_by FROM receipts WHERE tenant = $1 AND id = ANY ($2::text[]);

-- name: task
SELECT body FROM tasks WHERE tenant = $1 AND id = $2;

-- name: tasks_by_id
SELECT body FROM tasks WHERE tenant = $1 AND id = ANY ($2::text[]);

-- name: entries
-- Sealed entries by their position, then the others by their sequence, each from an index of its own. The entry $7 from
-- which the page goes on may have been sealed since it was read: what counts is where it stands now.
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

-- name: unsealed
SELECT sequence, tenant, run, kind, at, body, position FROM audit WHERE position IS NULL ORDER BY sequence LIMIT $1;

-- name: blocks
-- From number $2 on; where that is negative, of the last blocks, so many.
SELECT tenant, number, first, count, previous, head, digests, sealed_at, signer, signature, form FROM blocks
WHERE tenant = $1 AND number >= CASE WHEN $2::bigint >= 0 THEN $2 ELSE (
    SELECT min(number) FROM (
        SELECT number FROM blocks WHERE tenant = $1 ORDER BY number DESC LIMIT greatest(-$2, 0)
    ) AS last
) END
ORDER BY number LIMIT $3;

-- name: entries_in
-- The entries of runs, each with the times between which they are wanted. Run by run from the index, whatever the planner
-- thinks of reading the whole audit in the order of its sequences.
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
-- Who seals, who adds a key and who keeps evidence come one after the other: none would see the other's work before it is
-- committed. One lock for the chains of all tenants, for a lock of each would not fit into the server's table of locks.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast chains ' || current_schema(), 0));

-- name: share_chains
-- Any number may keep evidence at the same time.
SELECT pg_advisory_xact_lock_shared(hashtextextended('holdfast chains ' || current_schema(), 0));

-- name: ends
-- Where the chains of these tenants end.
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
-- The entries take these positions. Gives the runs that they name.
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
-- A chain that has a block behind the number given for its tenant.
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
-- $9: it is the evidence of its generation, of the entries up to $10, and shows in the run's row while that generation is the
-- present one. Nothing happens to one where an entry of the run was sealed behind. Rows of runs are locked in the order that
-- all share.
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

-- name: kept_evidence
SELECT found.* FROM unnest($1::text[], $2::text[]) AS given (tenant, run) CROSS JOIN LATERAL (
    SELECT tenant, run, generation, name, sha256, size, at, data FROM artefacts
    WHERE artefacts.tenant = given.tenant AND artefacts.run = given.run AND name = $3 OFFSET 0
) AS found
ORDER BY tenant, run, generation;

-- name: evidence_due
SELECT * FROM runs WHERE governed AND evidence IS NULL AND ended_at IS NOT NULL ORDER BY ended_at, tenant, id LIMIT $1;

-- name: filed
-- A page of receipts, by key, with the columns by which they are looked for.
SELECT tenant, key, id, run, root, position, state, token, opened_at, reversed_by, body FROM receipts
WHERE tenant = $1 AND key > $2 ORDER BY key LIMIT $3;

-- name: evidence_overdue
SELECT count(*) FROM runs WHERE governed AND evidence IS NULL AND ended_at IS NOT NULL AND ended_at < $1;

-- name: lock_admission
SELECT pg_advisory_xact_lock(hashtextextended('holdfast admission ' || current_schema(), 0));

-- name: claim_begun
-- As claim, without the root runs that have not begun.
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
-- The first few of every line of root runs that have not begun. A line is a tenant's runs of one workspace and program:
-- one that is at its cap must not hide the others behind it, nor a full workspace another. Lines are found by leaps
-- through the index, whatever their length.
WITH RECURSIVE lines AS (
    (
        SELECT tenant, workspace, workflow, program_kind FROM runs
        WHERE begun_at IS NULL AND parent IS NULL AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL
          AND ended_at IS NULL
        ORDER BY tenant, workspace, workflow, program_kind LIMIT 1
    )
    UNION ALL
    SELECT following.* FROM lines CROSS JOIN LATERAL (
        SELECT tenant, workspace, workflow, program_kind FROM runs
        WHERE begun_at IS NULL AND parent IS NULL AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL
          AND ended_at IS NULL AND (tenant, workspace, workflow, program_kind)
              > (lines.tenant, lines.workspace, lines.workflow, lines.program_kind)
        ORDER BY tenant, workspace, workflow, program_kind LIMIT 1
    ) AS following
)
SELECT waiting.tenant, waiting.id, lines.workflow, lines.workspace, waiting.priority FROM lines CROSS JOIN LATERAL (
    SELECT tenant, id, priority, ready_at FROM runs
    WHERE begun_at IS NULL AND parent IS NULL AND ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL
      AND ended_at IS NULL AND tenant = lines.tenant AND workspace = lines.workspace
      AND workflow = lines.workflow AND program_kind = lines.program_kind
    ORDER BY priority DESC, ready_at, id LIMIT $2
) AS waiting
WHERE CASE lines.program_kind WHEN 'function' THEN lines.workflow = ANY ($1::text[])
      ELSE lines.program_kind = ANY ($3::text[]) END
ORDER BY waiting.tenant, waiting.priority DESC, waiting.ready_at, waiting.id;

-- name: loads
-- What the tenants $1 have under way, and when the runs of tenants $2, who have a rate, began after $3.
SELECT tenant, workflow, workspace, count(*) AS under_way, '{}'::bigint[] AS begun FROM runs
WHERE tenant = ANY ($1::text[]) AND begun_at IS NOT NULL AND parent IS NULL AND ended_at IS NULL
GROUP BY tenant, workflow, workspace
UNION ALL
SELECT tenant, workflow, '', 0, array_agg(begun_at) FROM runs
WHERE tenant = ANY ($2::text[]) AND begun_at > $3 AND parent IS NULL
GROUP BY tenant, workflow;

-- name: claim_admitted
-- In the order given. One that is locked at this moment is about to change, and is looked at next time.
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
