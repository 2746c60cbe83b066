-- The statements of the PostgreSQL store. Each works on a whole set, given as one array per column and sorted by key.
-- A decision about a row that others may change at the same time reads that row itself, under its lock: a statement's
-- view of other tables may be older than its lock.
-- The condition of a partial index is never used together with a join with the parameters. Where the statistics show such
-- an index as empty, because all runs of yesterday have ended, the planner would read the whole index of today for every
-- parameter row. The condition is checked on the rows that were locked by key instead: they cannot change any more.

-- name: lock_runs
-- Batches lock the runs that they touch in the order of the keys, before anything else, so that no deadlock is possible.
SELECT FROM runs JOIN unnest($1::text[], $2::text[]) AS given (tenant, id) USING (tenant, id)
ORDER BY runs.tenant, runs.id FOR NO KEY UPDATE OF runs;

-- name: notify
SELECT pg_notify($1, $2);

-- name: start
-- Nothing happens where the id or the trigger is taken, or evidence is kept under it or under a child's id. A child's id is its parent's,
-- a ~ and more; chr(127) is the character after the ~. This is checked for each row by key: as NOT EXISTS it would be a
-- join, with the problem named at the top. Nothing happens, either, where a root run would be leased, or begin, in a tenant in
-- which people have set caps. A lane takes no place under a cap.
WITH given AS (
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bytea[], $7::text[], $8::boolean[],
        $9::text[], $10::bigint[], $11::text[], $12::text[], $13::bigint[], $14::bytea[], $15::text[], $16::bigint[],
        $17::bigint[], $18::text[], $19::text[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bytea[],
        $25::text[], $26::text[], $27::text[], $28::text[], $29::bigint[], $30::boolean[], $31::integer[],
        $32::text[], $33::bytea[], $34::bytea[]
    ) AS given (
        tenant, id, workflow, root, version, head, standing, cancelling, pause, priority, attributes, parent,
        parent_position, fingerprint, owner, ready_at, wake_at, waiting, error, at, ended_at, first, count, events,
        workspace, actor, trigger_type, trigger_ref, begun_at, governed, writes, program_kind,
        code_digest, trigger_key
    )
), started AS (
    INSERT INTO runs (tenant, id, workflow, root, version, head, standing, cancelling, pause, priority, attributes, parent,
                      parent_position, fingerprint, owner, ready_at, wake_at, waiting, error, created_at, updated_at,
                      ended_at, workspace, actor, trigger_type, trigger_ref, begun_at, governed, writes,
                      program_kind, code_digest, trigger_key)
    SELECT tenant, id, workflow, root, version, head, standing, cancelling, pause, priority, attributes::jsonb, parent,
           parent_position, fingerprint, owner, ready_at, wake_at, waiting, error, at, at, ended_at,
           workspace, actor, trigger_type, trigger_ref, begun_at, governed, writes, program_kind, code_digest,
           trigger_key
    FROM given
    WHERE (
        SELECT true FROM artefacts
        WHERE artefacts.tenant = given.tenant AND artefacts.run = given.id AND artefacts.name = 'evidence.zip' LIMIT 1
    ) IS NULL AND (
        SELECT true FROM artefacts
        WHERE artefacts.tenant = given.tenant AND artefacts.run > given.id || '~' AND artefacts.run < given.id || chr(127)
          AND artefacts.name = 'evidence.zip' LIMIT 1
    ) IS NULL AND (parent IS NOT NULL OR owner IS NULL AND (begun_at IS NULL OR program_kind = 'machine') OR (
        SELECT true FROM items WHERE items.tenant = given.tenant AND kind = 'cap' AND status = 'set' LIMIT 1
    ) IS NULL)
    ON CONFLICT DO NOTHING
    RETURNING tenant, id
), journaled AS (
    INSERT INTO segments (tenant, run, generation, first, count, events, head, at)
    SELECT tenant, id, 0, first, count, events, head, at FROM started JOIN given USING (tenant, id)
)
SELECT tenant, id, (SELECT pg_notify($35, $36) WHERE $36::text IS NOT NULL) FROM started;

-- name: exists
-- ``same`` is true where the same start is committed again: recognised by its hash and its lease. A row without a workflow
-- is a deleted run under whose id evidence is kept. This is the only answer to a change that neither writes nor locks. So
-- it waits for the synchronous standbys by a message, as confirm does: callers rely on the answer that a run exists.
-- The run that has the trigger comes before the one that has the id.
SELECT given.tenant, given.id, found.workflow, found.fingerprint, found.id AS run,
       coalesce(found.id = given.id AND found.owner = given.owner AND epoch = 1 AND generation = 0
                AND found.head = given.head, false) AS same,
       (SELECT pg_logical_emit_message(true, 'holdfast', '') WHERE current_setting('synchronous_standby_names') <> '')
FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bytea[]) AS given (tenant, id, owner, head, trigger_key)
LEFT JOIN LATERAL (
    (SELECT 1 AS rank, runs.* FROM runs WHERE runs.tenant = given.tenant AND runs.trigger_key = given.trigger_key)
    UNION ALL
    (SELECT 2 AS rank, runs.* FROM runs WHERE runs.tenant = given.tenant AND runs.id = given.id)
    ORDER BY rank LIMIT 1
) AS found ON true
WHERE found.id IS NOT NULL OR EXISTS (
    SELECT FROM artefacts
    WHERE artefacts.tenant = given.tenant AND artefacts.run = given.id AND artefacts.name = 'evidence.zip'
) OR EXISTS (
    SELECT FROM artefacts
    WHERE artefacts.tenant = given.tenant AND artefacts.run > given.id || '~' AND artefacts.run < given.id || chr(127)
      AND artefacts.name = 'evidence.zip'
);

-- name: advance
-- A run without a lease is not advanced, nor is an ended run, which has none.
-- The lease is kept where messages have arrived that this turn did not consume, unless the run is paused or has ended.
-- A turn without events keeps the count of crashes: a worker that takes over makes one before it begins a step.
-- What a usual turn does not set is in ``rest``, which is NULL then: the driver takes its time for each value of an array.
WITH given AS (
    SELECT tenant, id, epoch, version, generation, version + coalesce(count, 0) AS next_version, head, consumed, at, count, events,
        coalesce(rest->>'standing', 'running') AS standing, coalesce((rest->>'cancelling')::boolean, false) AS cancelling,
        (rest->>'wake_at')::bigint AS wake_at, rest->>'waiting' AS waiting, rest->>'error' AS error, rest->>'pause' AS pause,
        coalesce((rest->>'ended')::boolean, false) AS ended, coalesce((rest->>'release')::boolean, false) AS release,
        coalesce((rest->>'governed')::boolean, false) AS governed, coalesce((rest->>'writes')::integer, 0) AS writes
    FROM (
        SELECT *, written::jsonb AS rest FROM unnest(
            $1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[], $8::bigint[],
            $9::bigint[], $10::bytea[], $11::text[]
        ) AS given (tenant, id, epoch, version, generation, count, head, consumed, at, events, written)
    ) AS given
), locked AS (
    SELECT given.*, runs.owner, runs.pause IS NOT NULL AS was_paused FROM given JOIN runs USING (tenant, id)
    ORDER BY given.tenant, given.id FOR NO KEY UPDATE OF runs
), moved AS (
    UPDATE runs
    SET version = given.next_version, head = coalesce(given.head, runs.head), standing = given.standing,
        cancelling = given.cancelling, wake_at = given.wake_at, waiting = given.waiting, error = given.error,
        consumed = given.consumed, updated_at = coalesce(given.at, runs.updated_at),
        ended_at = CASE WHEN given.ended THEN given.at END,
        crashes = CASE WHEN given.head IS NULL THEN runs.crashes ELSE 0 END, ready_at = NULL,
        pause = coalesce(given.pause, runs.pause), governed = runs.governed OR given.governed, writes = given.writes,
        owner = CASE WHEN NOT (given.release AND (
            runs.arrived <= given.consumed OR given.ended OR coalesce(given.pause, runs.pause) IS NOT NULL
        )) THEN runs.owner END
    FROM locked AS given
    WHERE runs.tenant = given.tenant AND runs.id = given.id
      AND runs.epoch = given.epoch AND runs.version = given.version AND runs.generation = given.generation
      AND given.owner IS NOT NULL
    RETURNING given.tenant, given.id, given.generation, given.version, given.count, given.events, given.head, given.at,
              given.consumed, given.ended, runs.arrived, runs.pause, runs.owner, given.was_paused
), journaled AS (
    INSERT INTO segments (tenant, run, generation, first, count, events, head, at)
    SELECT tenant, id, generation, version, count, events, head, at FROM moved WHERE count IS NOT NULL
), dropped AS (
    DELETE FROM inbox USING moved
    WHERE (moved.ended OR moved.consumed > 0) AND inbox.tenant = moved.tenant AND inbox.run = moved.id
      AND (moved.ended OR inbox.position <= moved.consumed)
), withdrawn AS (
    DELETE FROM work USING moved WHERE moved.ended AND work.tenant = moved.tenant AND work.run = moved.id
), forgotten AS (
    DELETE FROM progress USING moved WHERE moved.ended AND progress.tenant = moved.tenant AND progress.run = moved.id
)
SELECT tenant, id, arrived, pause, owner, was_paused, (SELECT pg_notify($12, $13) WHERE $13::text IS NOT NULL) FROM moved;

-- name: late_cancels
-- When cancellations came that turns, which have paused their runs, did not know of. A statement of its own: the one that
-- paused them does not see what was committed while it waited for a run's lock.
SELECT given.tenant, given.id, (array_agg(inbox.at ORDER BY inbox.position))[1]
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS given (tenant, id, heard)
JOIN inbox ON inbox.tenant = given.tenant AND inbox.run = given.id AND inbox.position > given.heard AND inbox.kind = 'cancel'
GROUP BY given.tenant, given.id;

-- name: advanced_before
-- The same advance committed again: recognised by its head hash, which no other advance has.
SELECT runs.tenant, runs.id, runs.arrived, runs.pause, runs.owner
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[])
     AS given (tenant, id, epoch, generation, version, head)
JOIN runs ON runs.tenant = given.tenant AND runs.id = given.id AND runs.epoch = given.epoch
         AND runs.generation = given.generation AND runs.version = given.version AND runs.head = given.head;

-- name: add_segment
INSERT INTO segments (tenant, run, generation, first, count, events, head, at)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[], $8::bigint[]);

-- name: keep_checkpoints
INSERT INTO checkpoints (tenant, run, generation, version, head, data)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[])
ON CONFLICT (tenant, run) DO UPDATE
SET generation = excluded.generation, version = excluded.version, head = excluded.head, data = excluded.data;

-- name: drop_checkpoints
DELETE FROM checkpoints USING unnest($1::text[], $2::text[]) AS given (tenant, run)
WHERE checkpoints.tenant = given.tenant AND checkpoints.run = given.run;

-- name: clear_inbox
-- Messages that came while their run was ending: the statement that ended it could not see them yet.
WITH found AS MATERIALIZED (
    SELECT runs.tenant, runs.id, runs.ended_at
    FROM unnest($1::text[], $2::text[]) AS given (tenant, id) JOIN runs USING (tenant, id)
)
DELETE FROM inbox USING found
WHERE inbox.tenant = found.tenant AND inbox.run = found.id AND found.ended_at IS NOT NULL;

-- name: next_generation
-- The same run with a fresh journal, under the lease it has.
UPDATE runs
SET generation = runs.generation + 1, version = given.version, head = given.head, root = given.root, standing = 'running',
    ended_at = NULL, error = NULL, evidence = NULL
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bytea[]) AS given (tenant, id, version, head, root)
WHERE runs.tenant = given.tenant AND runs.id = given.id;

-- name: renew
WITH locked AS (
    SELECT given.*, runs.ended_at
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[], $7::text[], $8::bigint[])
         AS given (tenant, id, generation, version, head, root, standing, at)
    JOIN runs USING (tenant, id)
    ORDER BY given.tenant, given.id FOR NO KEY UPDATE OF runs
)
UPDATE runs
SET generation = runs.generation + 1, version = given.version, head = given.head, root = given.root,
    standing = given.standing, cancelling = false, pause = NULL, owner = NULL, epoch = epoch + 1, ready_at = given.at,
    wake_at = NULL, waiting = NULL, error = NULL, updated_at = given.at, ended_at = NULL, crashes = 0,
    evidence = NULL, begun_at = NULL, consumed = runs.arrived
FROM locked AS given
WHERE runs.tenant = given.tenant AND runs.id = given.id AND runs.generation = given.generation
  AND given.ended_at IS NOT NULL
RETURNING runs.tenant, runs.id, runs.generation;

-- name: deliver
-- Messages take the next positions of their inbox in the given order. The holder of a leased run gets them with its next
-- advance or hint; a run without a lease becomes ready. Answers every message whose run exists. A run that is asked to cancel
-- is shown so from then on. Where a message goes to a place of a run that was split, nothing is delivered, and it is answered
-- with the run's mark: all are given again, that one for the heir. Its id is noted for the run that it is addressed to.
WITH given AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[], $7::bigint[], $8::text[])
    WITH ORDINALITY AS given (tenant, run, kind, body, at, message, place, addressed, ordinal)
), locked AS (
    SELECT runs.tenant, runs.id AS run, runs.ended_at IS NOT NULL AS gone, nullif(runs.split, 'inherits') AS split FROM runs
    WHERE (runs.tenant, runs.id) IN (SELECT tenant, run FROM given)
    ORDER BY runs.tenant, runs.id FOR NO KEY UPDATE
), judged AS (
    SELECT *, bool_or(split IS NOT NULL) OVER () AS waits
    FROM (
        SELECT given.*, locked.gone, CASE WHEN given.place IS NOT NULL THEN locked.split END AS split
        FROM given JOIN locked USING (tenant, run)
    ) AS found
), noted AS (
    INSERT INTO deliveries (tenant, run, message, at)
    SELECT tenant, addressed, message, min(at) FROM judged
    WHERE message IS NOT NULL AND NOT gone AND NOT waits GROUP BY tenant, addressed, message
    ON CONFLICT DO NOTHING
    RETURNING tenant, run AS addressed, message
), placed AS (
    SELECT *, CASE WHEN fresh THEN row_number() OVER (PARTITION BY tenant, run, fresh ORDER BY ordinal) END AS number
    FROM (
        SELECT judged.*, NOT judged.gone AND NOT judged.waits AND (
            judged.message IS NULL
            OR noted.message IS NOT NULL AND 1 = row_number() OVER (
                PARTITION BY judged.tenant, judged.addressed, judged.message ORDER BY judged.ordinal
            )
        ) AS fresh
        FROM judged LEFT JOIN noted USING (tenant, addressed, message)
    ) AS judged
), arrived AS (
    UPDATE runs
    SET arrived = runs.arrived + more.count,
        ready_at = CASE WHEN runs.owner IS NULL THEN coalesce(runs.ready_at, more.at) END,
        cancelling = runs.cancelling OR more.cancels
    FROM (
        SELECT tenant, run, count(*) AS count, (array_agg(at ORDER BY ordinal))[1] AS at,
            bool_or(kind = 'cancel') AS cancels
        FROM placed WHERE fresh GROUP BY tenant, run
    ) AS more
    WHERE runs.tenant = more.tenant AND runs.id = more.run
    RETURNING runs.tenant, runs.id AS run, runs.arrived - more.count AS before
), added AS (
    INSERT INTO inbox (tenant, run, position, kind, body, at)
    SELECT tenant, run, before + number, kind, body, at FROM placed JOIN arrived USING (tenant, run) WHERE fresh
)
SELECT ordinal, gone, before + number AS position, split, (SELECT pg_notify($9, $10) WHERE $10::text IS NOT NULL)
FROM placed LEFT JOIN arrived USING (tenant, run);

-- name: mark_split
UPDATE runs SET split = given.split
FROM unnest($1::text[], $2::text[], $3::text[]) AS given (tenant, id, split)
WHERE runs.tenant = given.tenant AND runs.id = given.id;

-- name: enqueue
-- Offering the same attempt again changes nothing, even when it is done; a later attempt replaces it.
WITH added AS (
    INSERT INTO work (tenant, run, position, queue, name, attempt, body, priority, available_at, epoch)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bytea[], $8::bigint[],
                         $9::bigint[], $10::bigint[])
    ON CONFLICT (tenant, run, position) DO UPDATE
    SET queue = excluded.queue, name = excluded.name, attempt = excluded.attempt, body = excluded.body,
        priority = excluded.priority, available_at = excluded.available_at, owner = NULL,
        epoch = greatest(work.epoch + 1, excluded.epoch), done = false, claims = 0
    WHERE excluded.attempt > work.attempt
)
SELECT pg_notify($11, $12) WHERE $12::text IS NOT NULL;

-- name: withdraw
-- Answers the work that stays: that which is leased or done, where only work that was not begun is withdrawn.
WITH locked AS (
    SELECT work.tenant, work.run, work.position, unbegun AND (work.owner IS NOT NULL OR work.done) AS stays
    FROM work JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::boolean[]) AS given (tenant, run, position, unbegun)
    USING (tenant, run, position)
    ORDER BY work.tenant, work.run, work.position FOR UPDATE OF work
), gone AS (
    DELETE FROM work USING locked
    WHERE NOT locked.stays
      AND work.tenant = locked.tenant AND work.run = locked.run AND work.position = locked.position
)
SELECT tenant, run, position FROM locked WHERE stays;

-- name: finish_work
WITH locked AS (
    SELECT work.tenant, work.run, work.position, given.epoch
    FROM work JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS given (tenant, run, position, epoch)
         USING (tenant, run, position)
    ORDER BY work.tenant, work.run, work.position FOR UPDATE OF work
)
UPDATE work SET owner = NULL, done = true
FROM locked
WHERE work.tenant = locked.tenant AND work.run = locked.run AND work.position = locked.position
  AND work.epoch = locked.epoch AND NOT work.done
RETURNING work.tenant, work.run, work.position;

-- name: beat_step
INSERT INTO progress (tenant, run, position, details, at)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[])
ON CONFLICT (tenant, run, position) DO UPDATE SET details = excluded.details, at = excluded.at;

-- name: add_blob
-- A blob that exists already is locked, so that a prune that would delete it sees this use first.
INSERT INTO blobs (tenant, digest, data)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[])
ON CONFLICT (tenant, digest) DO UPDATE SET digest = excluded.digest;

-- name: use_blob
INSERT INTO blob_uses (tenant, digest, kind, holder)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[])
ON CONFLICT DO NOTHING;

-- name: keep_code
INSERT INTO code (tenant, digest, kind, name, data)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::bytea[])
ON CONFLICT DO NOTHING;

-- name: code
SELECT digest, kind, name, data FROM code WHERE tenant = $1 AND digest = ANY ($2::bytea[]);

-- name: lock_definitions
-- One transaction at a time publishes: what it has judged must hold until its commit, also for versions that are not there.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast definitions ' || current_schema(), 0));

-- name: publish
INSERT INTO definitions (tenant, name, version, digest, at, written) VALUES ($1, $2, $3, $4, $5, $6);

-- name: definition
SELECT tenant, name, version, digest, at, written FROM definitions WHERE tenant = $1 AND name = $2 AND version = $3;

-- name: lock_items
-- Acts lock the items that they judge by, in the order of the keys, also those that are not there yet.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast item ' || current_schema() || ' ' || name, 0))
FROM (SELECT unnest($1::text[]) AS name ORDER BY name) AS given;

-- name: put_item
INSERT INTO items (tenant, kind, id, version, body, status, due_at, changed_at)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::text[], $7::bigint[], $8::bigint[]
)
ON CONFLICT (tenant, kind, id) DO UPDATE SET
    version = excluded.version, body = excluded.body, status = excluded.status, due_at = excluded.due_at,
    changed_at = excluded.changed_at;

-- name: drop_items
DELETE FROM items USING unnest($1::text[], $2::text[], $3::text[]) AS given (tenant, kind, id)
WHERE items.tenant = given.tenant AND items.kind = given.kind AND items.id = given.id;

-- name: tally_items
UPDATE items SET version = version + more, due_at = coalesce(items.due_at, given.due_at)
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS given (tenant, kind, id, due_at, more)
WHERE items.tenant = given.tenant AND items.kind = given.kind AND items.id = given.id
RETURNING items.tenant, items.kind, items.id;

-- name: versions_of_items
SELECT tenant, kind, id, version FROM items
JOIN unnest($1::text[], $2::text[], $3::text[]) AS given (tenant, kind, id) USING (tenant, kind, id);

-- name: item
SELECT tenant, kind, id, version, body, status, due_at, changed_at FROM items
WHERE tenant = $1 AND kind = $2 AND id = $3;

-- name: due_items
SELECT tenant, kind, id, version, body, status, due_at, changed_at FROM items
WHERE kind = $1 AND due_at <= $2 ORDER BY due_at, tenant, id LIMIT $3;

-- name: now
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: due_now
-- There is a row also where nothing is due: it tells the time.
WITH clock AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now)
SELECT clock.now, due.* FROM clock LEFT JOIN LATERAL (
    SELECT tenant, kind, id, version, body, status, due_at, changed_at FROM items
    WHERE kind = $1 AND due_at <= clock.now ORDER BY due_at, tenant, id LIMIT $2
) AS due ON true
ORDER BY due.due_at, due.tenant, due.id;

-- name: next_due_item
SELECT min(due_at) FROM items WHERE kind = $1 AND due_at IS NOT NULL;

-- name: definitions
SELECT tenant, name, version, digest, at, written FROM definitions
WHERE tenant = $1 AND ($2::text IS NULL OR name = $2) AND ($3::text IS NULL OR (name, version) > ($3, $4::bigint))
ORDER BY name, version LIMIT $5;

-- name: set_reference
UPDATE runs SET reference = given.reference
FROM unnest($1::text[], $2::text[], $3::text[]) AS given (tenant, id, reference)
WHERE runs.tenant = given.tenant AND runs.id = given.id;

-- name: set_reference_of_tasks
-- Locked in the order of the keys, as all batches lock tasks.
WITH locked AS (
    SELECT tasks.tenant, tasks.id, given.reference
    FROM unnest($1::text[], $2::text[], $3::text[]) AS given (tenant, run, reference) JOIN tasks USING (tenant, run)
    WHERE tasks.status = 'requested'
    ORDER BY tasks.tenant, tasks.id FOR NO KEY UPDATE OF tasks
)
UPDATE tasks SET reference = locked.reference
FROM locked WHERE tasks.tenant = locked.tenant AND tasks.id = locked.id;

-- name: register
INSERT INTO workers (id, host, pid, workflows, queues, started_at, expires_at, beat_at, kinds, unavailable)
SELECT $1, $2, $3, $4, $5, $6, clock.now + $7, clock.now, $8, $9
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at, beat_at = excluded.beat_at;

-- name: beat
UPDATE workers SET expires_at = clock.now + $2, beat_at = clock.now
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE id = $1
RETURNING id;

-- name: report_clock
UPDATE workers SET clock_ahead = $2 WHERE id = $1;

-- name: workers
SELECT id, host, pid, workflows, queues, started_at, expires_at, kinds, clock_ahead, unavailable
FROM workers ORDER BY started_at, id;

-- name: attend
-- A worker is present while a session holds its lock. Several handles of one process may hold it, so it is shared.
SELECT pg_try_advisory_lock_shared(hashtextextended(current_schema() || '/' || $1, 0));

-- name: leave
SELECT pg_advisory_unlock_shared(hashtextextended(current_schema() || '/' || $1, 0));

-- name: gone
-- Workers that have expired, and those whose lock nobody holds although they had a second to take it since their last beat.
-- A worker without a beat since the server's start or promotion has lost its lock like all others, and may be about to
-- return: on a promoted standby every replayed beat is from before. $1 is the worker that asks; where its own lock is
-- missing, the others may have lost theirs in the same way.
WITH clock AS (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
           (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS started,
           coalesce((extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000000)::bigint, 0) AS replayed
), held AS MATERIALIZED (
    SELECT classid::bigint << 32 | objid::bigint AS key FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT id, expires_at < clock.now AS expired FROM workers, clock
WHERE id IS DISTINCT FROM $1::text AND (
    expires_at < clock.now
    OR beat_at < clock.now - 1000000 AND beat_at > clock.started AND beat_at > clock.replayed
       AND hashtextextended(current_schema() || '/' || id, 0) NOT IN (SELECT key FROM held)
       AND ($1 IS NULL OR hashtextextended(current_schema() || '/' || $1, 0) IN (SELECT key FROM held))
)
ORDER BY id FOR UPDATE OF workers SKIP LOCKED;

-- name: has_expired
SELECT expires_at < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM workers WHERE id = $1;

-- name: forget_worker
WITH forgotten AS (DELETE FROM declined WHERE worker = ANY ($1::text[]))
DELETE FROM workers WHERE id = ANY ($1::text[]);

-- name: lease
SELECT program_kind, workflow, generation FROM runs WHERE tenant = $1 AND id = $2 AND owner = $3 AND epoch = $4 FOR NO KEY UPDATE;

-- name: fitting
-- Another worker that serves a run's program and has not declined it.
SELECT workers.id FROM workers, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE CASE $6 WHEN 'function' THEN $1 = ANY (workers.workflows) ELSE $6 = ANY (workers.kinds) END AND workers.expires_at >= clock.now AND workers.id <> $5 AND NOT EXISTS (
    SELECT FROM declined WHERE tenant = $2 AND run = $3 AND worker = workers.id AND generation = $4
) LIMIT 1;

-- name: decline
INSERT INTO declined (tenant, run, worker, generation, at, reason) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, run, worker) DO UPDATE
SET generation = excluded.generation, at = excluded.at, reason = excluded.reason;

-- name: hand_over
UPDATE runs SET owner = NULL, epoch = epoch + 1, ready_at = $3 WHERE tenant = $1 AND id = $2;

-- name: declined
SELECT declined.worker, declined.at, declined.reason FROM declined
JOIN runs ON runs.tenant = declined.tenant AND runs.id = declined.run AND runs.generation = declined.generation
WHERE declined.tenant = $1 AND declined.run = $2 ORDER BY declined.at, declined.worker;

-- name: forget_forsaken
-- Runs that every living worker has declined are offered to all of them once more: the last of them parks the run.
DELETE FROM declined USING runs, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE runs.tenant = declined.tenant AND runs.id = declined.run AND NOT EXISTS (
    SELECT FROM workers
    WHERE CASE runs.program_kind WHEN 'function' THEN runs.workflow = ANY (workers.workflows)
          ELSE runs.program_kind = ANY (workers.kinds) END AND workers.expires_at >= clock.now AND NOT EXISTS (
        SELECT FROM declined AS before
        WHERE before.tenant = runs.tenant AND before.run = runs.id
          AND before.worker = workers.id AND before.generation = runs.generation
    )
);

-- name: take_back_runs
-- $3 is 1 where the workers died, 0 where they left in good order.
WITH locked AS (
    SELECT tenant, id FROM runs WHERE owner = ANY ($1::text[]) ORDER BY tenant, id FOR NO KEY UPDATE
)
UPDATE runs SET owner = NULL, epoch = epoch + 1, ready_at = $2, crashes = crashes + $3
FROM locked WHERE runs.tenant = locked.tenant AND runs.id = locked.id;

-- name: take_back_work
WITH locked AS (
    SELECT tenant, run, position FROM work WHERE owner = ANY ($1::text[]) ORDER BY tenant, run, position FOR UPDATE
)
UPDATE work SET owner = NULL, epoch = epoch + 1
FROM locked WHERE work.tenant = locked.tenant AND work.run = locked.run AND work.position = locked.position;

-- name: strays
-- Owners of leases that are not registered: a worker may have claimed after it was forgotten.
SELECT owner FROM runs WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM workers)
UNION
SELECT owner FROM work WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM workers);

-- name: wake
-- Runs whose timer is due become ready. A run that is locked now is about to change, and is left to the next time.
WITH due AS (
    SELECT tenant, id FROM runs WHERE wake_at <= $1 AND owner IS NULL AND ended_at IS NULL FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE runs SET ready_at = coalesce(ready_at, wake_at), wake_at = NULL
FROM due WHERE runs.tenant = due.tenant AND runs.id = due.id;

-- name: claim
-- There is always a first row, because it has the time of the next timer; it has no run where nothing was ready.
-- The text is added so that only the index of ready runs fits: that of workflows has all runs that ever were.
WITH ready AS (
    SELECT tenant, id, ready_at FROM runs
    WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL AND (
          program_kind = 'function' AND workflow || '' = ANY ($2::text[]) OR program_kind = ANY ($5::text[])
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

-- name: claim_work
-- There is always a first row, as in claim, because it has the time when the next work becomes available.
WITH free AS (
    SELECT work.*, wanted.ordinal
    FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS wanted (queue, most, ordinal)
    CROSS JOIN LATERAL (
        SELECT tenant, run, position FROM work
        WHERE owner IS NULL AND NOT done AND queue = wanted.queue AND available_at <= $4
          AND ($5::text[] IS NULL OR name = ANY ($5::text[]))
        ORDER BY priority DESC, available_at, tenant, run, position
        LIMIT wanted.most
        FOR UPDATE SKIP LOCKED
    ) AS work
), claimed AS (
    UPDATE work SET owner = $1, epoch = epoch + 1, claims = claims + 1
    FROM free WHERE work.tenant = free.tenant AND work.run = free.run AND work.position = free.position
    RETURNING work.tenant, work.run, work.position, queue, name, attempt, body, priority, available_at, epoch, claims,
              ordinal
)
SELECT claimed.tenant, claimed.run, claimed.position, queue, name, attempt, body, priority, available_at, epoch, claims, (
    SELECT min(work.available_at) FROM work
    WHERE work.owner IS NULL AND NOT work.done AND work.queue = ANY ($2::text[])
      AND ($5::text[] IS NULL OR work.name = ANY ($5::text[])) AND NOT EXISTS (
        SELECT FROM claimed
        WHERE claimed.tenant = work.tenant AND claimed.run = work.run AND claimed.position = work.position
    )
) AS next_available_at
FROM (SELECT) AS always LEFT JOIN claimed ON true
ORDER BY ordinal, priority DESC, available_at, claimed.tenant, claimed.run, claimed.position;

-- name: leased_runs
SELECT * FROM runs WHERE owner = $1;

-- name: leased_work
SELECT tenant, run, position, queue, name, attempt, body, priority, available_at, epoch, claims
FROM work WHERE owner = $1;

-- name: arrivals
SELECT * FROM runs WHERE owner = $1 AND (arrived > consumed OR pause IS NOT NULL);

-- name: get
-- Callers rely on the answer that a run has ended, so this waits for the synchronous standbys, as exists does.
SELECT runs.*, (
    SELECT pg_logical_emit_message(true, 'holdfast', '')
    WHERE runs.ended_at IS NOT NULL AND current_setting('synchronous_standby_names') <> '' AND NOT pg_is_in_recovery()
)
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS given (tenant, id, ordinal)
JOIN runs USING (tenant, id) ORDER BY ordinal;

-- name: journals
-- The whole journals of the present generations.
SELECT runs.tenant, runs.id, first, count, events, segments.head, at
FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
JOIN runs USING (tenant, id)
JOIN segments ON segments.tenant = runs.tenant AND segments.run = runs.id AND segments.generation = runs.generation
ORDER BY runs.tenant, runs.id, first;

-- name: checkpoints
SELECT runs.tenant, runs.id, checkpoints.version, checkpoints.head, data
FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
JOIN runs USING (tenant, id)
JOIN checkpoints ON checkpoints.tenant = runs.tenant AND checkpoints.run = runs.id
                AND checkpoints.generation = runs.generation;

-- name: tails
-- The journals of the present generations, each from a version on.
SELECT runs.tenant, runs.id, first, count, events, segments.head, at
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS given (tenant, id, version)
JOIN runs USING (tenant, id)
JOIN segments ON segments.tenant = runs.tenant AND segments.run = runs.id AND segments.generation = runs.generation
             AND segments.first >= given.version
ORDER BY runs.tenant, runs.id, first;

-- name: segments
SELECT first, count, events, head, at FROM segments
WHERE tenant = $1 AND run = $2 AND generation = $3 AND first + count > $4
ORDER BY first LIMIT $5;

-- name: messages
SELECT inbox.tenant, inbox.run, position, kind, body, at
FROM unnest($1::text[], $2::text[]) AS given (tenant, run) JOIN inbox USING (tenant, run)
ORDER BY inbox.tenant, inbox.run, position;

-- name: blob
SELECT data FROM blobs WHERE tenant = $1 AND digest = $2;

-- name: blobs
SELECT digest, data FROM blobs WHERE tenant = $1 AND digest = ANY ($2::bytea[]);

-- name: work_of
SELECT tenant, run, position, queue, name, attempt, body, priority, available_at, epoch, claims, owner FROM work
WHERE tenant = $1 AND run = $2 AND NOT done ORDER BY position;

-- name: progress_of
SELECT position, details, at FROM progress WHERE tenant = $1 AND run = $2 ORDER BY position;

-- name: are_noted
SELECT tenant, id FROM audit JOIN unnest($1::text[], $2::text[]) AS given (tenant, id) USING (tenant, id);

-- name: is_delivered
SELECT FROM deliveries WHERE tenant = $1 AND run = $2 AND message = $3;

-- name: generation_of
SELECT generation, ended_at IS NOT NULL, pause FROM runs WHERE tenant = $1 AND id = $2;

-- name: pause
UPDATE runs SET pause = $3, updated_at = $4 WHERE tenant = $1 AND id = $2 AND ended_at IS NULL RETURNING id;

-- name: unpause
-- Workers that have declined the run may try again: a person may have corrected the cause.
WITH forgotten AS (DELETE FROM declined WHERE tenant = $1 AND run = $2)
UPDATE runs SET pause = NULL, crashes = 0, updated_at = $3, ready_at = CASE WHEN owner IS NULL THEN $3::bigint END
WHERE tenant = $1 AND id = $2 AND ended_at IS NULL AND pause IS NOT NULL
RETURNING id, pg_notify($4, $5);

-- name: prunable
-- The condition repeats that of the index, so that runs without evidence are not even read.
SELECT tenant, id FROM runs WHERE ended_at < $1 AND (NOT governed OR evidence IS NOT NULL)
  AND (attributes ->> 'template' IS NULL OR EXISTS (
      SELECT FROM audit
      WHERE audit.tenant = runs.tenant AND audit.id = 'story:' || created_at || ':' || generation || ':' || runs.id))
  AND (parent IS NULL OR (
      SELECT true FROM runs AS above WHERE above.tenant = runs.tenant AND above.id = runs.parent) IS NULL)
ORDER BY ended_at LIMIT $2 FOR UPDATE OF runs SKIP LOCKED;

-- name: untold
-- Instances of templates that have ended, and whose story the audit has not.
SELECT * FROM runs
WHERE ended_at < $1 AND ended_at IS NOT NULL AND attributes ->> 'template' IS NOT NULL AND NOT EXISTS (
    SELECT FROM audit
    WHERE audit.tenant = runs.tenant AND audit.id = 'story:' || created_at || ':' || generation || ':' || runs.id)
ORDER BY ended_at LIMIT $2;

-- name: prune_blob_uses
DELETE FROM blob_uses USING unnest($1::text[], $2::text[]) AS given (tenant, run)
WHERE blob_uses.tenant = given.tenant AND blob_uses.kind = 'run' AND blob_uses.holder = given.run
RETURNING blob_uses.tenant, digest;

-- name: lock_blobs
-- A transaction that begins to use one of these now waits until it is clear whether it is deleted.
SELECT FROM blobs JOIN unnest($1::text[], $2::bytea[]) AS given (tenant, digest) USING (tenant, digest)
ORDER BY blobs.tenant, blobs.digest FOR UPDATE OF blobs;

-- name: prune_blobs
-- Blobs without a user.
DELETE FROM blobs USING unnest($1::text[], $2::bytea[]) AS given (tenant, digest)
WHERE blobs.tenant = given.tenant AND blobs.digest = given.digest AND NOT EXISTS (
    SELECT FROM blob_uses WHERE blob_uses.tenant = blobs.tenant AND blob_uses.digest = blobs.digest
);

-- name: prune_holders
-- What runs still held they keep if they have completed, else let go.
UPDATE holders SET state = CASE runs.standing WHEN 'completed' THEN 'kept' ELSE 'let_go' END
FROM unnest($1::text[], $2::text[]) AS given (tenant, run) JOIN runs ON runs.tenant = given.tenant AND runs.id = given.run
WHERE holders.tenant = given.tenant AND holders.run = given.run AND holders.state = 'open';

-- name: prune_run
-- Deletes runs with all that belongs to them.
WITH given AS (
    SELECT * FROM unnest($1::text[], $2::text[]) AS given (tenant, run)
), segments_gone AS (
    DELETE FROM segments USING given WHERE segments.tenant = given.tenant AND segments.run = given.run
), checkpoints_gone AS (
    DELETE FROM checkpoints USING given WHERE checkpoints.tenant = given.tenant AND checkpoints.run = given.run
), deliveries_gone AS (
    DELETE FROM deliveries USING given WHERE deliveries.tenant = given.tenant AND deliveries.run = given.run
), inbox_gone AS (
    DELETE FROM inbox USING given WHERE inbox.tenant = given.tenant AND inbox.run = given.run
), work_gone AS (
    DELETE FROM work USING given WHERE work.tenant = given.tenant AND work.run = given.run
), progress_gone AS (
    DELETE FROM progress USING given WHERE progress.tenant = given.tenant AND progress.run = given.run
), cells_gone AS (
    DELETE FROM cells USING given WHERE cells.tenant = given.tenant AND cells.lane = given.run
), deleted_cells_gone AS (
    DELETE FROM deleted_cells USING given WHERE deleted_cells.tenant = given.tenant AND deleted_cells.lane = given.run
), held_events_gone AS (
    DELETE FROM held_events USING given WHERE held_events.tenant = given.tenant AND held_events.lane = given.run
), cell_roots_gone AS (
    DELETE FROM cell_roots USING given WHERE cell_roots.tenant = given.tenant AND cell_roots.lane = given.run
), cell_nodes_gone AS (
    DELETE FROM cell_nodes USING given WHERE cell_nodes.tenant = given.tenant AND cell_nodes.lane = given.run
), write_counts_gone AS (
    DELETE FROM write_counts USING given WHERE write_counts.tenant = given.tenant AND write_counts.run = given.run
)
DELETE FROM runs USING given WHERE runs.tenant = given.tenant AND runs.id = given.run;

-- name: forget_deliveries
WITH old AS (
    SELECT tenant, run, message FROM deliveries WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM deliveries USING old
WHERE deliveries.tenant = old.tenant AND deliveries.run = old.run AND deliveries.message = old.message
RETURNING 1;

-- name: oldest_due
-- Ready runs are read from the index of those alone; the next to be woken is the first of its own.
SELECT min(ready_at) FROM runs
WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
UNION ALL
SELECT * FROM (
    SELECT wake_at FROM runs WHERE wake_at IS NOT NULL AND owner IS NULL AND ended_at IS NULL AND pause IS NULL
    ORDER BY wake_at LIMIT 1
) AS soonest;

-- name: counts
-- Counted by standing from an index alone. Paused and cancelling runs, which show another status, are few and have an
-- index, too.
SELECT tenant, standing AS status, count(*) FROM runs GROUP BY tenant, standing
UNION ALL
SELECT tenant, standing, -count(*) FROM runs
WHERE ended_at IS NULL AND (pause IS NOT NULL OR cancelling) GROUP BY tenant, standing
UNION ALL
SELECT tenant, CASE WHEN pause IS NULL THEN 'cancelling' ELSE 'paused' END, count(*) FROM runs
WHERE ended_at IS NULL AND (pause IS NOT NULL OR cancelling) GROUP BY tenant, pause IS NULL;

-- name: counts_of
-- The same of one tenant, whose part of the indexes is read.
SELECT tenant, standing AS status, count(*) FROM runs WHERE tenant = $1 GROUP BY tenant, standing
UNION ALL
SELECT tenant, standing, -count(*) FROM runs
WHERE tenant = $1 AND ended_at IS NULL AND (pause IS NOT NULL OR cancelling) GROUP BY tenant, standing
UNION ALL
SELECT tenant, CASE WHEN pause IS NULL THEN 'cancelling' ELSE 'paused' END, count(*) FROM runs
WHERE tenant = $1 AND ended_at IS NULL AND (pause IS NOT NULL OR cancelling) GROUP BY tenant, pause IS NULL;

-- name: counts_up_to
-- The same, but each number is counted no further than is asked for. What is taken away is no more than that, so what is
-- left is right, or is as much at least.
WITH held AS MATERIALIZED (
    SELECT standing, pause FROM runs WHERE tenant = $1 AND ended_at IS NULL AND (pause IS NOT NULL OR cancelling) LIMIT $2
)
SELECT $1 AS tenant, standing AS status, counted.number
FROM unnest(ARRAY['queued', 'running', 'waiting', 'completed', 'failed', 'cancelled']) AS standings (standing)
CROSS JOIN LATERAL (
    SELECT count(*) AS number FROM (
        SELECT FROM runs WHERE tenant = $1 AND runs.standing = standings.standing LIMIT $2 + (SELECT count(*) FROM held)
    ) AS listed
) AS counted
UNION ALL
SELECT $1, standing, -count(*) FROM held GROUP BY standing
UNION ALL
SELECT $1, CASE WHEN pause IS NULL THEN 'cancelling' ELSE 'paused' END, count(*) FROM held GROUP BY pause IS NULL;

-- name: tenants
-- The tenants that have runs, each found by one look into the index.
WITH RECURSIVE next (tenant) AS (
    SELECT min(tenant) FROM runs
    UNION ALL
    SELECT (SELECT min(tenant) FROM runs WHERE tenant > next.tenant) FROM next WHERE tenant IS NOT NULL
)
SELECT tenant FROM next WHERE tenant IS NOT NULL;

-- name: owners
-- The tenants that have a run, a user or an item of their own, each found by one look into each index.
WITH RECURSIVE next (tenant) AS (
    SELECT '' COLLATE "C"
    UNION ALL
    SELECT (SELECT min(tenant) FROM (
        SELECT min(tenant) AS tenant FROM runs WHERE tenant > next.tenant
        UNION ALL SELECT min(tenant) FROM items WHERE kind = 'tenant' AND tenant > next.tenant
        UNION ALL SELECT min(tenant) FROM items WHERE kind = 'user' AND tenant > next.tenant
    ) AS each) FROM next WHERE tenant IS NOT NULL
)
SELECT tenant FROM next WHERE tenant <> '' LIMIT $1;

-- name: count_runs
SELECT standing, count(*) FROM runs GROUP BY standing;

-- name: ready_runs
SELECT count(*), min(ready_at) FROM runs
WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
  AND ($1::text IS NULL OR tenant = $1);

-- name: earliest_timer
SELECT min(wake_at) FROM runs
WHERE wake_at IS NOT NULL AND owner IS NULL AND ended_at IS NULL AND ($1::text IS NULL OR tenant = $1);

-- name: leases
SELECT owner, count(*) FROM runs WHERE owner IS NOT NULL AND ($1::text IS NULL OR tenant = $1) GROUP BY owner;

-- name: queues
SELECT queue, count(*) FILTER (WHERE owner IS NULL), count(*) FILTER (WHERE owner IS NOT NULL),
       min(available_at) FILTER (WHERE owner IS NULL)
FROM work WHERE NOT done AND ($1::text IS NULL OR tenant = $1) GROUP BY queue ORDER BY queue;

-- name: size
SELECT (SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(ARRAY[
    'runs', 'segments', 'checkpoints', 'inbox', 'deliveries', 'work', 'progress', 'blobs', 'blob_uses', 'workers',
    'receipts', 'tasks', 'audit', 'blocks', 'signing_keys', 'chain_ends', 'artefacts', 'code', 'definitions',
    'items'
]) AS name)::bigint;

-- name: count_rest
SELECT (SELECT count(*) FROM inbox), (SELECT count(*) FROM work WHERE NOT done), (SELECT count(*) FROM blobs),
       (SELECT max(number) FROM holdfast_schema), current_setting('server_version'),
       (SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(ARRAY[
           'runs', 'segments', 'checkpoints', 'inbox', 'deliveries', 'work', 'progress', 'blobs', 'blob_uses', 'workers',
           'receipts', 'tasks', 'audit', 'blocks', 'signing_keys', 'chain_ends', 'artefacts', 'code', 'definitions',
           'items'
       ]) AS name)::bigint;

-- name: surroundings
SELECT current_schema() AS schema, current_setting('server_version_num')::int AS version,
       current_setting('server_encoding') AS encoding,
       EXISTS (
           SELECT FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'holdfast_schema'
       ) AS prepared;

-- name: lock_schema
SELECT pg_advisory_xact_lock(hashtextextended('holdfast schema ' || current_schema(), 0));

-- name: make_schema
CREATE TABLE IF NOT EXISTS holdfast_schema (
    number     bigint NOT NULL PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: schema_number
SELECT coalesce(max(number), 0) FROM holdfast_schema;

-- name: note_migration
INSERT INTO holdfast_schema (number, name) VALUES ($1, $2);

-- name: note_version
UPDATE holdfast_schema SET holdfast = $2 WHERE number = $1;

-- name: version_of_schema
-- A table of an earlier version has no such column, and then JSON has none of its fields.
SELECT to_jsonb(holdfast_schema) ->> 'holdfast' FROM holdfast_schema ORDER BY number DESC LIMIT 1;

-- name: process
SELECT pg_backend_pid();

-- name: identity
-- The database and the schema within their cluster. A standby that is promoted has the same.
SELECT (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database,
       (SELECT oid::bigint FROM pg_namespace WHERE nspname = current_schema()) AS schema;

-- name: standing
-- The cluster of the server, its timeline, which every promotion raises, whether it takes writes, and when it started.
SELECT system_identifier,
       CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())::bigint
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint END AS timeline,
       NOT pg_is_in_recovery() AND current_setting('default_transaction_read_only') = 'off' AS takes_writes,
       extract(epoch FROM pg_postmaster_start_time())::float8 AS started
FROM pg_control_system();

-- name: confirm
-- A commit that waits for the synchronous standbys, if there are any: after it they have all earlier commits.
SELECT pg_logical_emit_message(true, 'holdfast', '')
WHERE current_setting('synchronous_standby_names') <> '' AND NOT pg_is_in_recovery();

-- name: waits_for_standby
-- The standbys for which a commit of this user waits.
SELECT current_setting('synchronous_standby_names') FROM pg_stat_activity
WHERE wait_event = 'SyncRep' AND usename = current_user LIMIT 1;

-- name: lacking_segments
-- The places of the committed segments that are missing, and whether their run exists.
SELECT given.ordinal, runs.id IS NOT NULL AS there
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[]) WITH ORDINALITY
     AS given (tenant, run, generation, first, head, ordinal)
LEFT JOIN segments USING (tenant, run, generation, first)
LEFT JOIN runs ON runs.tenant = given.tenant AND runs.id = given.run
WHERE segments.head IS DISTINCT FROM given.head;

-- name: lacking_messages
SELECT given.ordinal, runs.id IS NOT NULL AS there
FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS given (tenant, run, position, ordinal)
LEFT JOIN runs ON runs.tenant = given.tenant AND runs.id = given.run
WHERE runs.arrived IS NULL OR runs.arrived < given.position;

-- name: lacking_deliveries
-- A message's id is known for a month, so one that is missing was never delivered here.
SELECT given.ordinal, runs.id IS NOT NULL AS there
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS given (tenant, run, message, ordinal)
LEFT JOIN deliveries USING (tenant, run, message)
LEFT JOIN runs ON runs.tenant = given.tenant AND runs.id = given.run
WHERE deliveries.at IS NULL;

-- name: lacking_tasks
-- No task is ever deleted.
SELECT given.ordinal, true AS there
FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS given (tenant, id, version, ordinal)
LEFT JOIN tasks ON tasks.tenant = given.tenant AND tasks.id = given.id
WHERE tasks.version IS NULL OR tasks.version < given.version;

-- name: keep_lost
INSERT INTO items (tenant, kind, id, version, body, status, due_at, changed_at)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::text[], $7::bigint[], $8::bigint[]
)
ON CONFLICT DO NOTHING;

-- name: put_cells
INSERT INTO cells (tenant, lane, key, machine, record, status, wake_at, active_at, version)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::bytea[], $4::text[], $5::bytea[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[]
)
ON CONFLICT (tenant, lane, key) DO UPDATE SET
    record = excluded.record, status = excluded.status, wake_at = excluded.wake_at, active_at = excluded.active_at,
    version = excluded.version;

-- name: drop_cells
DELETE FROM cells USING unnest($1::text[], $2::text[], $3::bytea[]) AS gone (tenant, lane, key)
WHERE (cells.tenant, cells.lane, cells.key) = (gone.tenant, gone.lane, gone.key);

-- name: cells
SELECT tenant, lane, key, machine, record, status, wake_at, active_at, version FROM cells
WHERE tenant = $1 AND lane = $2 AND key = ANY ($3::bytea[]);

-- name: due_cells
SELECT tenant, lane, key, machine, record, status, wake_at, active_at, version FROM cells
WHERE tenant = $1 AND lane = $2 AND wake_at <= $3 ORDER BY wake_at, key LIMIT $4;

-- name: next_cell_wake
SELECT min(wake_at) FROM cells WHERE tenant = $1 AND lane = $2 AND wake_at > $3;

-- name: find_cells
SELECT tenant, lane, key, machine, record, status, wake_at, active_at, version FROM cells
WHERE tenant = $1 AND machine = $2 AND ($3::text IS NULL OR status = $3) AND ($4::bigint IS NULL OR active_at >= $4)
    AND (lane, key) > ($5, $6::bytea)
ORDER BY lane, key LIMIT $7;

-- name: count_cells
SELECT status, count(*) FROM cells WHERE tenant = $1 AND machine = $2 GROUP BY status;

-- name: bury
INSERT INTO dead_letters (tenant, lane, version, number, machine, schema, value, key, reason, at, id)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bytea[], $8::bytea[], $9::text[],
    $10::bigint[], $11::text[]
)
ON CONFLICT DO NOTHING;

-- name: dead_letters
SELECT tenant, lane, version, number, machine, schema, value, key, reason, at, id FROM dead_letters
WHERE tenant = $1 AND (lane, version, number) > ($2, $3::bigint, $4::bigint) ORDER BY lane, version, number LIMIT $5;

-- name: is_buried
SELECT FROM dead_letters WHERE tenant = $1 AND lane = $2 AND version = $3 AND number = $4;

-- name: drop_dead
DELETE FROM dead_letters WHERE tenant = $1 AND lane = $2 AND version = $3 AND number = $4;

-- name: mark_deleted_cells
INSERT INTO deleted_cells (tenant, lane, key, version)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[])
ON CONFLICT (tenant, lane, key) DO UPDATE SET version = excluded.version;

-- name: put_held_events
INSERT INTO held_events (tenant, lane, key, number, event, version)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[], $5::bytea[], $6::bigint[])
ON CONFLICT (tenant, lane, key, number) DO UPDATE SET event = excluded.event, version = excluded.version;

-- name: mark_held_events
-- They are held no more: a root that has seen it drops the rows.
UPDATE held_events AS held SET event = NULL, version = gone.version
FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS gone (tenant, lane, key, first, "end", version)
WHERE held.tenant = gone.tenant AND held.lane = gone.lane AND held.key = gone.key
    AND held.number >= gone.first AND held.number < gone."end" AND held.event IS NOT NULL;

-- name: held_events
-- No more behind so many bytes: what comes before the last row is less than that.
SELECT number, event FROM (
    SELECT number, event, sum(octet_length(event)) OVER (ORDER BY number) - octet_length(event) AS before
    FROM (
        SELECT number, event FROM held_events
        WHERE tenant = $1 AND lane = $2 AND key = $3 AND number >= $4 AND event IS NOT NULL ORDER BY number LIMIT $5
    ) AS held
) AS summed
WHERE before < $6 ORDER BY number;

-- name: forget_held_events
DELETE FROM held_events WHERE tenant = $1 AND lane = $2 AND event IS NULL AND version < $3;

-- name: unrooted
-- One statement reads one moment: the run's row says at which version of the journal that is.
SELECT runs.version, runs.head, cells.key, cells.record, NULL::bigint FROM runs
LEFT JOIN cells ON cells.tenant = runs.tenant AND cells.lane = runs.id AND cells.version >= $3
WHERE runs.tenant = $1 AND runs.id = $2
UNION ALL
SELECT NULL, NULL, gone.key, NULL, NULL FROM deleted_cells AS gone
WHERE gone.tenant = $1 AND gone.lane = $2 AND gone.version >= $3 AND NOT EXISTS (
    SELECT FROM cells WHERE cells.tenant = gone.tenant AND cells.lane = gone.lane AND cells.key = gone.key
)
UNION ALL
SELECT NULL, NULL, key, event, number FROM held_events
WHERE tenant = $1 AND lane = $2 AND version >= $3 AND EXISTS (SELECT FROM runs WHERE tenant = $1 AND id = $2);

-- name: cell_roots
SELECT tenant, lane, version, head, root, cells, at FROM cell_roots
WHERE tenant = $1 AND lane = $2 AND ($4::bigint IS NULL OR version = $4) ORDER BY version DESC LIMIT $3;

-- name: lock_roots
-- Roots of a lane are made, and swept, one after the other. The lane's turns do not wait for it.
SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 22));

-- name: last_root
SELECT version FROM cell_roots WHERE tenant = $1 AND lane = $2 ORDER BY version DESC LIMIT 1;

-- name: put_root
INSERT INTO cell_roots (tenant, lane, version, head, root, cells, at) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: put_nodes
INSERT INTO cell_nodes (tenant, lane, name, data)
SELECT $1, $2, given.name, given.data FROM unnest($3::bytea[], $4::bytea[]) AS given (name, data)
ON CONFLICT DO NOTHING;

-- name: forget_deleted_cells
DELETE FROM deleted_cells WHERE tenant = $1 AND lane = $2 AND version < $3;

-- name: cell_nodes
SELECT name, data FROM cell_nodes WHERE tenant = $1 AND lane = $2 AND name = ANY ($3::bytea[]);

-- name: cell_node_names
SELECT name FROM cell_nodes WHERE tenant = $1 AND lane = $2 AND name > $3 ORDER BY name LIMIT $4;

-- name: drop_roots
DELETE FROM cell_roots WHERE tenant = $1 AND lane = $2 AND version = ANY ($3::bigint[]);

-- name: drop_nodes
DELETE FROM cell_nodes WHERE tenant = $1 AND lane = $2 AND name = ANY ($3::bytea[]);
