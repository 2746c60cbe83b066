-- The statements of the SQLite store. Each changes one row or reads a few; a batch is many of them in one transaction.

-- name: start
-- Nothing happens where the id or the trigger is taken, or evidence is kept under it or under a child's id. A child's id is its parent's,
-- a ~ and more; char(127) is the character after the ~. Nor does it where a root run (?12 is the parent) would be leased
-- (?15) or begin (?27) in a tenant in which people have set caps. A lane (?30) takes no place under a cap.
INSERT INTO runs (tenant, id, workflow, root, version, head, standing, cancelling, pause, priority, attributes, parent,
                  parent_position, fingerprint, owner, ready_at, wake_at, waiting, error, created_at, updated_at,
                  ended_at, workspace, actor, trigger_type, trigger_ref, begun_at, governed, writes, program_kind, code_digest,
                  trigger_key)
SELECT ?1, ?2, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
WHERE NOT EXISTS (SELECT 1 FROM artefacts WHERE tenant = ?1 AND run = ?2 AND name = 'evidence.zip')
  AND NOT EXISTS (SELECT 1 FROM artefacts
                  WHERE tenant = ?1 AND run > ?2 || '~' AND run < ?2 || char(127) AND name = 'evidence.zip')
  AND (?12 IS NOT NULL OR ?15 IS NULL AND (?27 IS NULL OR ?30 = 'machine')
       OR NOT EXISTS (SELECT 1 FROM items WHERE tenant = ?1 AND kind = 'cap' AND status = 'set'))
ON CONFLICT DO NOTHING;

-- name: has_caps
SELECT 1 FROM items WHERE tenant = ? AND kind = 'cap' AND status = 'set' LIMIT 1;

-- name: exists
-- The run that has the trigger comes before the one that has the id.
SELECT workflow, fingerprint, id FROM runs WHERE tenant = ?1 AND (id = ?2 OR trigger_key = ?3)
ORDER BY coalesce(trigger_key = ?3, 0) DESC LIMIT 1;

-- name: started_before
-- The same start committed again: recognised by its hash and its lease.
SELECT 1 FROM runs WHERE tenant = ? AND id = ? AND owner = ? AND epoch = 1 AND generation = 0 AND head = ?;

-- name: advance
-- The lease is kept where messages have arrived that this turn did not consume, unless the run is paused or has ended.
-- A run without a lease is not advanced: else a late release would hide that a message has made the run ready.
-- A turn without events keeps the count of crashes: a worker that takes over makes one before it begins a step.
UPDATE runs
SET version = ?1, head = coalesce(?2, head), standing = ?3, cancelling = ?4, wake_at = ?5, waiting = ?6, error = ?7,
    consumed = ?8, updated_at = coalesce(?9, updated_at), ended_at = ?10,
    crashes = CASE WHEN ?2 IS NULL THEN crashes ELSE 0 END, ready_at = NULL,
    pause = coalesce(?16, pause), governed = governed OR ?19, writes = ?20,
    owner = CASE WHEN ?11 AND (arrived <= ?8 OR ?18 OR coalesce(?16, pause) IS NOT NULL) THEN NULL ELSE owner END
WHERE tenant = ?12 AND id = ?13 AND epoch = ?14 AND version = ?15 AND generation = ?17 AND owner IS NOT NULL
RETURNING arrived, pause, owner;

-- name: go_on
-- The usual turn: the run keeps its lease, no message has arrived, and no indexed column changes. SQLite would write an
-- index again even for a column that is set to its old value, and would keep a table for the returned rows.
UPDATE runs SET version = ?1, head = ?2, consumed = ?3, updated_at = ?4, writes = ?5
WHERE tenant = ?6 AND id = ?7 AND epoch = ?8 AND version = ?9 AND generation = ?10 AND owner IS NOT NULL
  AND standing = 'running' AND NOT cancelling AND wake_at IS NULL AND waiting IS NULL AND error IS NULL
  AND crashes = 0 AND ready_at IS NULL AND governed = ?11 AND arrived = ?3 AND pause IS NULL;

-- name: go_on_all
-- The same for many runs at once. The rows that fill the list up are NULL, and fit no run.
UPDATE runs
SET version = given.column6, head = given.column7, consumed = given.column8, updated_at = given.column9,
    writes = given.column10
FROM (VALUES /* given */) AS given
WHERE tenant = given.column1 AND id = given.column2 AND epoch = given.column3 AND version = given.column4
  AND generation = given.column5 AND owner IS NOT NULL AND standing = 'running' AND NOT cancelling AND wake_at IS NULL
  AND waiting IS NULL AND error IS NULL AND crashes = 0 AND ready_at IS NULL AND governed = given.column11
  AND arrived = given.column8 AND pause IS NULL;

-- name: add_segments
INSERT INTO segments (tenant, run, generation, first, count, events, head, at)
SELECT * FROM (VALUES /* given */) WHERE column1 IS NOT NULL;

-- name: advanced_before
-- The same advance committed again: recognised by its head hash, which no other advance has.
SELECT arrived, pause, owner FROM runs
WHERE tenant = ? AND id = ? AND epoch = ? AND generation = ? AND version = ? AND head = ?;

-- name: add_segment
INSERT INTO segments (tenant, run, generation, first, count, events, head, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: keep_checkpoint
INSERT OR REPLACE INTO checkpoints (tenant, run, generation, version, head, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: drop_checkpoint
DELETE FROM checkpoints WHERE tenant = ?1 AND run = ?2;

-- name: checkpoint
SELECT version, head, data FROM checkpoints WHERE tenant = ?1 AND run = ?2 AND generation = ?3;

-- name: next_generation
-- The same run with a fresh journal, under the lease it has.
UPDATE runs
SET generation = generation + 1, version = ?3, head = ?4, root = ?5, standing = 'running', ended_at = NULL, error = NULL
WHERE tenant = ?1 AND id = ?2;

-- name: renew
UPDATE runs
SET generation = generation + 1, version = ?4, head = ?5, root = ?6, standing = ?7, cancelling = 0, pause = NULL,
    owner = NULL, epoch = epoch + 1, ready_at = ?8, wake_at = NULL, waiting = NULL, error = NULL, updated_at = ?8,
    ended_at = NULL, crashes = 0, evidence = NULL, begun_at = NULL, consumed = arrived
WHERE tenant = ?1 AND id = ?2 AND generation = ?3 AND ended_at IS NOT NULL
RETURNING generation;

-- name: arrive
-- The holder of a leased run gets the message with its next advance or hint; a run without a lease becomes ready.
UPDATE runs
SET arrived = arrived + 1, ready_at = CASE WHEN owner IS NULL THEN coalesce(ready_at, ?3) END
WHERE tenant = ?1 AND id = ?2 AND ended_at IS NULL AND (?4 IS NULL OR split IS NULL OR split = 'inherits')
RETURNING arrived;

-- name: arrive_all
-- The same for many runs at once, and for some messages each: their number, and when the first of them came.
UPDATE runs
SET arrived = arrived + given.column3,
    ready_at = CASE WHEN owner IS NULL THEN coalesce(ready_at, given.column4) END
FROM (VALUES /* given */) AS given
WHERE tenant = given.column1 AND id = given.column2 AND ended_at IS NULL AND (split IS NULL OR split = 'inherits')
RETURNING tenant, id, arrived;

-- name: split_of
SELECT split FROM runs WHERE tenant = ? AND id = ?;

-- name: mark_split
UPDATE runs SET split = ?3 WHERE tenant = ?1 AND id = ?2;

-- name: mark_cancelling
-- A run that is asked to cancel is shown so from then on. By itself: what is always set with an arrival is no index's.
UPDATE runs SET cancelling = 1 WHERE tenant = ? AND id = ? AND NOT cancelling;

-- name: note_delivery
INSERT INTO deliveries (tenant, run, message, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: note_deliveries
INSERT INTO deliveries (tenant, run, message, at)
SELECT * FROM (VALUES /* given */) WHERE column1 IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: unnote_delivery
DELETE FROM deliveries WHERE tenant = ? AND run = ? AND message = ?;

-- name: add_message
INSERT INTO inbox (tenant, run, position, kind, body, at) VALUES (?, ?, ?, ?, ?, ?);

-- name: add_messages
-- Each with how many of its run come with it or after it, once all of them are counted as arrived.
INSERT INTO inbox (tenant, run, position, kind, body, at)
SELECT given.column1, given.column2, runs.arrived + 1 - given.column3, given.column4, given.column5, given.column6
FROM (VALUES /* given */) AS given JOIN runs ON runs.tenant = given.column1 AND runs.id = given.column2;

-- name: drop_messages
DELETE FROM inbox WHERE tenant = ? AND run = ? AND position <= ?;

-- name: clear_inbox
DELETE FROM inbox WHERE tenant = ? AND run = ?;

-- name: clear_work
DELETE FROM work WHERE tenant = ? AND run = ?;

-- name: clear_progress
DELETE FROM progress WHERE tenant = ? AND run = ?;

-- name: enqueue
-- Offering the same attempt again changes nothing, even when it is done; a later attempt replaces it.
INSERT INTO work (tenant, run, position, queue, name, attempt, body, priority, available_at, epoch)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, run, position) DO UPDATE
SET queue = excluded.queue, name = excluded.name, attempt = excluded.attempt, body = excluded.body,
    priority = excluded.priority, available_at = excluded.available_at, owner = NULL,
    epoch = max(epoch + 1, excluded.epoch), done = 0, claims = 0
WHERE excluded.attempt > work.attempt;

-- name: withdraw
DELETE FROM work WHERE tenant = ? AND run = ? AND position = ?;

-- name: withdraw_unbegun
DELETE FROM work WHERE tenant = ? AND run = ? AND position = ? AND owner IS NULL AND NOT done;

-- name: has_work
SELECT 1 FROM work WHERE tenant = ? AND run = ? AND position = ?;

-- name: finish_work
UPDATE work SET owner = NULL, done = 1
WHERE tenant = ? AND run = ? AND position = ? AND epoch = ? AND NOT done RETURNING 1;

-- name: beat_step
INSERT INTO progress (tenant, run, position, details, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (tenant, run, position) DO UPDATE SET details = excluded.details, at = excluded.at;

-- name: add_blob
INSERT INTO blobs (tenant, digest, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: use_blob
INSERT INTO blob_uses (tenant, digest, kind, holder) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: keep_code
INSERT INTO code (tenant, digest, kind, name, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: code
SELECT digest, kind, name, data FROM code WHERE tenant = ? AND digest = ?;

-- name: publish
INSERT INTO definitions (tenant, name, version, digest, at) VALUES (?, ?, ?, ?, ?);

-- name: definition
SELECT tenant, name, version, digest, at FROM definitions WHERE tenant = ? AND name = ? AND version = ?;

-- name: put_item
INSERT INTO items (tenant, kind, id, version, body, status, due_at, changed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, kind, id) DO UPDATE SET
    version = excluded.version, body = excluded.body, status = excluded.status, due_at = excluded.due_at,
    changed_at = excluded.changed_at;

-- name: drop_item
DELETE FROM items WHERE tenant = ? AND kind = ? AND id = ?;

-- name: tally_item
UPDATE items SET version = version + 1, due_at = coalesce(due_at, ?4) WHERE tenant = ?1 AND kind = ?2 AND id = ?3;

-- name: version_of_item
SELECT version FROM items WHERE tenant = ? AND kind = ? AND id = ?;

-- name: item
SELECT tenant, kind, id, version, body, status, due_at, changed_at FROM items WHERE tenant = ? AND kind = ? AND id = ?;

-- name: due_items
SELECT tenant, kind, id, version, body, status, due_at, changed_at FROM items
WHERE kind = ?1 AND due_at <= ?2 ORDER BY due_at, tenant, id LIMIT ?3;

-- name: next_due_item
SELECT min(due_at) FROM items WHERE kind = ? AND due_at IS NOT NULL;

-- name: definitions
SELECT tenant, name, version, digest, at FROM definitions
WHERE tenant = ?1 AND (?2 IS NULL OR name = ?2) AND (?3 IS NULL OR (name, version) > (?3, ?4))
ORDER BY name, version LIMIT ?5;

-- name: set_reference
UPDATE runs SET reference = ?3 WHERE tenant = ?1 AND id = ?2;

-- name: register
INSERT INTO workers (id, host, pid, workflows, queues, started_at, expires_at, kinds) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at;

-- name: beat
UPDATE workers SET expires_at = ? WHERE id = ?;

-- name: report_clock
UPDATE workers SET clock_ahead = ? WHERE id = ?;

-- name: workers
SELECT id, host, pid, workflows, queues, started_at, expires_at, kinds, clock_ahead FROM workers ORDER BY started_at, id;

-- name: forget_worker
DELETE FROM workers WHERE id = ?;

-- name: forget_declined_by
DELETE FROM declined WHERE worker = ?;

-- name: lease
SELECT program_kind, workflow, generation FROM runs WHERE tenant = ? AND id = ? AND owner = ? AND epoch = ?;

-- name: fitting
-- The workers that serve a run's program and have not declined it.
SELECT workers.id FROM workers,
    json_each(CASE ?6 WHEN 'function' THEN workers.workflows ELSE workers.kinds END) AS served
WHERE served.value = CASE ?6 WHEN 'function' THEN ?1 ELSE ?6 END AND workers.expires_at >= ?2 AND NOT EXISTS (
    SELECT 1 FROM declined WHERE tenant = ?3 AND run = ?4 AND worker = workers.id AND generation = ?5
);

-- name: decline
INSERT OR REPLACE INTO declined (tenant, run, worker, generation, at, reason) VALUES (?, ?, ?, ?, ?, ?);

-- name: hand_over
UPDATE runs SET owner = NULL, epoch = epoch + 1, ready_at = ?3 WHERE tenant = ?1 AND id = ?2;

-- name: declined
SELECT declined.worker, declined.at, declined.reason FROM declined
JOIN runs ON runs.tenant = declined.tenant AND runs.id = declined.run AND runs.generation = declined.generation
WHERE declined.tenant = ? AND declined.run = ? ORDER BY declined.at, declined.worker;

-- name: forsaken
-- Runs that every living worker has declined.
SELECT DISTINCT declined.tenant, declined.run
FROM declined JOIN runs ON runs.tenant = declined.tenant AND runs.id = declined.run
WHERE NOT EXISTS (
    SELECT 1 FROM workers,
        json_each(CASE runs.program_kind WHEN 'function' THEN workers.workflows ELSE workers.kinds END) AS served
    WHERE served.value = CASE runs.program_kind WHEN 'function' THEN runs.workflow ELSE runs.program_kind END AND workers.expires_at >= ?1 AND NOT EXISTS (
        SELECT 1 FROM declined AS before
        WHERE before.tenant = runs.tenant AND before.run = runs.id
          AND before.worker = workers.id AND before.generation = runs.generation
    )
);

-- name: forget_declined
DELETE FROM declined WHERE tenant = ? AND run = ?;

-- name: take_back_runs
-- ?3 is 1 where the worker died, 0 where it left in good order.
UPDATE runs SET owner = NULL, epoch = epoch + 1, ready_at = ?2, crashes = crashes + ?3 WHERE owner = ?1;

-- name: take_back_work
UPDATE work SET owner = NULL, epoch = epoch + 1 WHERE owner = ?1;

-- name: strays
-- Owners of leases that are not registered: a worker may have claimed after it was forgotten.
SELECT owner FROM runs WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM workers)
UNION
SELECT owner FROM work WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM workers);

-- name: wake
-- Runs whose timer is due become ready.
UPDATE runs SET ready_at = coalesce(ready_at, wake_at), wake_at = NULL
WHERE wake_at <= ? AND owner IS NULL AND ended_at IS NULL;

-- name: claim
-- Functions and other kinds of programs come as JSON arrays.
UPDATE runs SET owner = ?1, epoch = epoch + 1, ready_at = NULL, begun_at = coalesce(begun_at, ?4)
WHERE (tenant, id) IN (
    SELECT tenant, id FROM runs
    WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
      AND (CASE program_kind WHEN 'function' THEN workflow IN (SELECT value FROM json_each(?2))
           ELSE program_kind IN (SELECT value FROM json_each(?5)) END)
    ORDER BY priority DESC, ready_at
    LIMIT ?3
)
RETURNING *;

-- name: next_wake
SELECT min(wake_at) FROM runs WHERE wake_at IS NOT NULL AND owner IS NULL AND ended_at IS NULL;

-- name: claim_work
UPDATE work SET owner = ?1, epoch = epoch + 1, claims = claims + 1
WHERE (tenant, run, position) IN (
    SELECT tenant, run, position FROM work
    WHERE owner IS NULL AND NOT done AND queue = ?2 AND available_at <= ?3
      AND (?5 IS NULL OR name IN (SELECT value FROM json_each(?5)))
    ORDER BY priority DESC, available_at
    LIMIT ?4
)
RETURNING tenant, run, position, queue, name, attempt, body, priority, available_at, epoch, claims;

-- name: leased_runs
SELECT * FROM runs WHERE owner = ?;

-- name: leased_work
SELECT tenant, run, position, queue, name, attempt, body, priority, available_at, epoch, claims
FROM work WHERE owner = ?;

-- name: arrivals
SELECT * FROM runs WHERE owner = ? AND (arrived > consumed OR pause IS NOT NULL);

-- name: next_work
SELECT min(available_at) FROM work
WHERE owner IS NULL AND NOT done AND queue IN (SELECT value FROM json_each(?1))
  AND (?2 IS NULL OR name IN (SELECT value FROM json_each(?2)));

-- name: get
SELECT * FROM runs WHERE tenant = ? AND id = ?;

-- name: segments
SELECT first, count, events, head, at FROM segments
WHERE tenant = ? AND run = ? AND generation = ? AND first + count > ?
ORDER BY first LIMIT ?;

-- name: messages
SELECT position, kind, body, at FROM inbox WHERE tenant = ? AND run = ? ORDER BY position;

-- name: blob
SELECT data FROM blobs WHERE tenant = ? AND digest = ?;

-- name: work_of
SELECT tenant, run, position, queue, name, attempt, body, priority, available_at, epoch, claims, owner FROM work
WHERE tenant = ? AND run = ? AND NOT done ORDER BY position;

-- name: progress_of
SELECT position, details, at FROM progress WHERE tenant = ? AND run = ? ORDER BY position;

-- name: is_noted
SELECT 1 FROM audit WHERE tenant = ? AND id = ?;

-- name: is_delivered
SELECT 1 FROM deliveries WHERE tenant = ? AND run = ? AND message = ?;

-- name: generation_of
SELECT generation, ended_at IS NOT NULL, pause FROM runs WHERE tenant = ? AND id = ?;

-- name: pause
UPDATE runs SET pause = ?3, updated_at = ?4 WHERE tenant = ?1 AND id = ?2 AND ended_at IS NULL;

-- name: unpause
UPDATE runs SET pause = NULL, crashes = 0, updated_at = ?3, ready_at = CASE WHEN owner IS NULL THEN ?3 END
WHERE tenant = ?1 AND id = ?2 AND ended_at IS NULL AND pause IS NOT NULL;

-- name: prunable
-- The condition repeats that of the index exactly, so that runs without evidence are not even read.
SELECT tenant, id FROM runs
WHERE ended_at < ? AND ended_at IS NOT NULL AND (NOT governed OR evidence IS NOT NULL)
  AND (CASE WHEN json_valid(attributes) THEN json_extract(attributes, '$.template') END IS NULL OR EXISTS (
      SELECT 1 FROM audit
      WHERE audit.tenant = runs.tenant AND audit.id = 'story:' || created_at || ':' || generation || ':' || runs.id))
  AND (parent IS NULL OR NOT EXISTS (
      SELECT 1 FROM runs AS above WHERE above.tenant = runs.tenant AND above.id = runs.parent))
ORDER BY ended_at LIMIT ?;

-- name: untold
-- Instances of templates that have ended, and whose story the audit has not.
SELECT * FROM runs
WHERE ended_at < ? AND ended_at IS NOT NULL
  AND CASE WHEN json_valid(attributes) THEN json_extract(attributes, '$.template') END IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM audit
    WHERE audit.tenant = runs.tenant AND audit.id = 'story:' || created_at || ':' || generation || ':' || runs.id)
ORDER BY ended_at LIMIT ?;

-- name: prune_holders
-- What a run still held it keeps if it has completed, else lets go.
UPDATE holders SET state = iif(
    (SELECT standing FROM runs WHERE runs.tenant = holders.tenant AND runs.id = holders.run) = 'completed', 'kept', 'let_go'
) WHERE tenant = ? AND run = ? AND state = 'open';

-- name: prune_run
DELETE FROM runs WHERE tenant = ? AND id = ?;

-- name: add_attribute
INSERT OR IGNORE INTO run_attributes (of_tenant, name, content, made_at, run) VALUES (?, ?, ?, ?, ?);

-- name: prune_attributes
DELETE FROM run_attributes WHERE (of_tenant, name, content, made_at, run) IN (
    SELECT runs.tenant, each.key, each.value, runs.created_at, runs.id
    FROM runs, json_each(CASE WHEN json_valid(runs.attributes) THEN runs.attributes ELSE '{}' END) AS each
    WHERE runs.tenant = ? AND runs.id = ? AND runs.attributes <> '{}'
);

-- name: prune_write_counts
DELETE FROM write_counts WHERE tenant = ? AND run = ?;

-- name: prune_segments
DELETE FROM segments WHERE tenant = ? AND run = ?;

-- name: prune_deliveries
DELETE FROM deliveries WHERE tenant = ? AND run = ?;

-- name: forget_deliveries
DELETE FROM deliveries WHERE (tenant, run, message) IN (
    SELECT tenant, run, message FROM deliveries WHERE at < ? ORDER BY at LIMIT ?
);

-- name: prune_blobs
-- Blobs that only this run uses.
DELETE FROM blobs WHERE tenant = ?1 AND digest IN (
    SELECT digest FROM blob_uses AS mine WHERE mine.tenant = ?1 AND mine.kind = 'run' AND mine.holder = ?2
    AND NOT EXISTS (SELECT 1 FROM blob_uses AS other
                    WHERE other.tenant = ?1 AND other.digest = mine.digest
                      AND (other.kind <> 'run' OR other.holder <> ?2))
);

-- name: prune_blob_uses
DELETE FROM blob_uses WHERE tenant = ? AND kind = 'run' AND holder = ?;

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
SELECT tenant, status, sum(counted) AS total FROM (
    SELECT tenant, standing AS status, count(*) AS counted FROM runs GROUP BY tenant, standing
    UNION ALL
    SELECT tenant, standing, -count(*) FROM runs INDEXED BY runs_held_up
    WHERE ended_at IS NULL AND (pause IS NOT NULL OR cancelling) GROUP BY tenant, standing
    UNION ALL
    SELECT tenant, CASE WHEN pause IS NULL THEN 'cancelling' ELSE 'paused' END, count(*) FROM runs INDEXED BY runs_held_up
    WHERE ended_at IS NULL AND (pause IS NOT NULL OR cancelling) GROUP BY tenant, pause IS NULL
)
GROUP BY tenant, status HAVING total > 0 ORDER BY tenant, status;

-- name: counts_of
-- The same of one tenant, whose part of the indexes is read.
SELECT status, sum(counted) AS total FROM (
    SELECT standing AS status, count(*) AS counted FROM runs WHERE tenant = ?1 GROUP BY standing
    UNION ALL
    SELECT standing, -count(*) FROM runs INDEXED BY runs_held_up
    WHERE tenant = ?1 AND ended_at IS NULL AND (pause IS NOT NULL OR cancelling) GROUP BY standing
    UNION ALL
    SELECT CASE WHEN pause IS NULL THEN 'cancelling' ELSE 'paused' END, count(*) FROM runs INDEXED BY runs_held_up
    WHERE tenant = ?1 AND ended_at IS NULL AND (pause IS NOT NULL OR cancelling) GROUP BY pause IS NULL
)
GROUP BY status HAVING total > 0 ORDER BY status;

-- name: counts_up_to
-- The same, but each number is counted no further than is asked for. What is taken away is no more than that, so what is
-- left is right, or is as much at least.
WITH held AS MATERIALIZED (
    SELECT standing, pause FROM runs INDEXED BY runs_held_up
    WHERE tenant = ?1 AND ended_at IS NULL AND (pause IS NOT NULL OR cancelling) LIMIT ?2
), standings (standing) AS (
    VALUES ('queued'), ('running'), ('waiting'), ('completed'), ('failed'), ('cancelled')
)
SELECT status, sum(counted) AS total FROM (
    SELECT standing AS status, (
        SELECT count(*) FROM (
            SELECT 1 FROM runs WHERE tenant = ?1 AND runs.standing = standings.standing LIMIT ?2 + (SELECT count(*) FROM held)
        )
    ) AS counted
    FROM standings
    UNION ALL
    SELECT standing, -count(*) FROM held GROUP BY standing
    UNION ALL
    SELECT CASE WHEN pause IS NULL THEN 'cancelling' ELSE 'paused' END, count(*) FROM held GROUP BY pause IS NULL
)
GROUP BY status HAVING total > 0 ORDER BY status;

-- name: tenants
-- The tenants that have runs, each found by one look into the index.
WITH RECURSIVE found (tenant) AS (
    SELECT min(tenant) FROM runs
    UNION ALL
    SELECT (SELECT min(tenant) FROM runs WHERE tenant > found.tenant) FROM found WHERE tenant IS NOT NULL
)
SELECT tenant FROM found WHERE tenant IS NOT NULL;

-- name: owners
-- The tenants that have a run, a user or an item of their own, each found by one look into each index.
WITH RECURSIVE found (tenant) AS (
    SELECT ''
    UNION ALL
    SELECT (SELECT min(tenant) FROM (
        SELECT min(tenant) AS tenant FROM runs WHERE tenant > found.tenant
        UNION ALL SELECT min(tenant) FROM items WHERE kind = 'tenant' AND tenant > found.tenant
        UNION ALL SELECT min(tenant) FROM items WHERE kind = 'user' AND tenant > found.tenant
    )) FROM found WHERE tenant IS NOT NULL
)
SELECT tenant FROM found WHERE tenant <> '' LIMIT ?;

-- name: count_ended
-- How many runs of all tenants ended in a time, counted no further than is asked for, in the two parts that have an index.
SELECT (SELECT count(*) FROM (
    SELECT 1 FROM runs INDEXED BY runs_prunable
    WHERE ended_at >= ?1 AND ended_at < ?2 AND (NOT governed OR evidence IS NOT NULL) LIMIT ?3
)) + (SELECT count(*) FROM (
    SELECT 1 FROM runs INDEXED BY runs_evidence_due
    WHERE ended_at >= ?1 AND ended_at < ?2 AND governed AND evidence IS NULL LIMIT ?3
));

-- name: count_runs
SELECT standing, count(*) FROM runs GROUP BY standing;

-- name: ready_runs
SELECT count(*), min(ready_at) FROM runs
WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL AND (?1 IS NULL OR tenant = ?1);

-- name: earliest_timer
SELECT min(wake_at) FROM runs
WHERE wake_at IS NOT NULL AND owner IS NULL AND ended_at IS NULL AND (?1 IS NULL OR tenant = ?1);

-- name: leases
SELECT owner, count(*) FROM runs WHERE owner IS NOT NULL AND (?1 IS NULL OR tenant = ?1) GROUP BY owner;

-- name: queues
SELECT queue, sum(owner IS NULL), sum(owner IS NOT NULL), min(CASE WHEN owner IS NULL THEN available_at END)
FROM work WHERE NOT done AND (?1 IS NULL OR tenant = ?1) GROUP BY queue ORDER BY queue;

-- name: count_rest
SELECT (SELECT count(*) FROM inbox), (SELECT count(*) FROM work WHERE NOT done), (SELECT count(*) FROM blobs);

-- name: put_cell
INSERT INTO cells (tenant, lane, key, machine, record, status, wake_at, active_at, version)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, lane, key) DO UPDATE SET
    record = excluded.record, status = excluded.status, wake_at = excluded.wake_at, active_at = excluded.active_at,
    version = excluded.version;

-- name: drop_cell
DELETE FROM cells WHERE tenant = ? AND lane = ? AND key = ?;

-- name: cell
SELECT tenant, lane, key, machine, record, status, wake_at, active_at, version FROM cells
WHERE tenant = ? AND lane = ? AND key = ?;

-- name: due_cells
SELECT tenant, lane, key, machine, record, status, wake_at, active_at, version FROM cells
WHERE tenant = ?1 AND lane = ?2 AND wake_at <= ?3 ORDER BY wake_at, key LIMIT ?4;

-- name: next_cell_wake
SELECT min(wake_at) FROM cells WHERE tenant = ?1 AND lane = ?2 AND wake_at > ?3;

-- name: find_cells
SELECT tenant, lane, key, machine, record, status, wake_at, active_at, version FROM cells
WHERE tenant = ?1 AND machine = ?2 AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR active_at >= ?4)
    AND (lane, key) > (?5, ?6)
ORDER BY lane, key LIMIT ?7;

-- name: count_cells
SELECT status, count(*) FROM cells WHERE tenant = ?1 AND machine = ?2 GROUP BY status;

-- name: bury
INSERT INTO dead_letters (tenant, lane, version, number, machine, schema, value, key, reason, at, id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: dead_letters
SELECT tenant, lane, version, number, machine, schema, value, key, reason, at, id FROM dead_letters
WHERE tenant = ?1 AND (lane, version, number) > (?2, ?3, ?4) ORDER BY lane, version, number LIMIT ?5;

-- name: is_buried
SELECT 1 FROM dead_letters WHERE tenant = ? AND lane = ? AND version = ? AND number = ?;

-- name: drop_dead
DELETE FROM dead_letters WHERE tenant = ? AND lane = ? AND version = ? AND number = ?;

-- name: mark_deleted_cell
INSERT INTO deleted_cells (tenant, lane, key, version) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, lane, key) DO UPDATE SET version = excluded.version;

-- name: put_held_event
INSERT INTO held_events (tenant, lane, key, number, event, version) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, lane, key, number) DO UPDATE SET event = excluded.event, version = excluded.version;

-- name: mark_held_events
-- They are held no more: a root that has seen it drops the rows.
UPDATE held_events SET event = NULL, version = ?6
WHERE tenant = ?1 AND lane = ?2 AND key = ?3 AND number >= ?4 AND number < ?5 AND event IS NOT NULL;

-- name: held_events
-- No more behind so many bytes: what comes before the last row is less than that.
SELECT number, event FROM (
    SELECT number, event, sum(length(event)) OVER (ORDER BY number) - length(event) AS before FROM (
        SELECT number, event FROM held_events
        WHERE tenant = ?1 AND lane = ?2 AND key = ?3 AND number >= ?4 AND event IS NOT NULL ORDER BY number LIMIT ?5
    )
) WHERE before < ?6 ORDER BY number;

-- name: forget_held_events
DELETE FROM held_events WHERE tenant = ? AND lane = ? AND event IS NULL AND version < ?;

-- name: prune_held_events
DELETE FROM held_events WHERE tenant = ? AND lane = ?;

-- name: unrooted
-- One statement reads one moment: the run's row says at which version of the journal that is.
SELECT runs.version, runs.head, cells.key, cells.record, NULL FROM runs
LEFT JOIN cells INDEXED BY cells_unrooted
    ON cells.tenant = runs.tenant AND cells.lane = runs.id AND cells.version >= ?3
WHERE runs.tenant = ?1 AND runs.id = ?2
UNION ALL
SELECT NULL, NULL, gone.key, NULL, NULL FROM deleted_cells AS gone
WHERE gone.tenant = ?1 AND gone.lane = ?2 AND gone.version >= ?3 AND NOT EXISTS (
    SELECT 1 FROM cells WHERE cells.tenant = gone.tenant AND cells.lane = gone.lane AND cells.key = gone.key
)
UNION ALL
SELECT NULL, NULL, key, event, number FROM held_events
WHERE tenant = ?1 AND lane = ?2 AND version >= ?3 AND EXISTS (SELECT 1 FROM runs WHERE tenant = ?1 AND id = ?2);

-- name: cell_roots
SELECT tenant, lane, version, head, root, cells, at FROM cell_roots
WHERE tenant = ?1 AND lane = ?2 AND (?4 IS NULL OR version = ?4) ORDER BY version DESC LIMIT ?3;

-- name: last_root
SELECT version FROM cell_roots WHERE tenant = ? AND lane = ? ORDER BY version DESC LIMIT 1;

-- name: put_root
INSERT INTO cell_roots (tenant, lane, version, head, root, cells, at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: put_nodes
INSERT INTO cell_nodes (tenant, lane, name, data)
SELECT column1, column2, column3, column4 FROM (VALUES /* given */) WHERE column1 IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: forget_deleted_cells
DELETE FROM deleted_cells WHERE tenant = ? AND lane = ? AND version < ?;

-- name: cell_node
SELECT name, data FROM cell_nodes WHERE tenant = ? AND lane = ? AND name = ?;

-- name: cell_node_names
SELECT name FROM cell_nodes WHERE tenant = ?1 AND lane = ?2 AND name > ?3 ORDER BY name LIMIT ?4;

-- name: drop_root
DELETE FROM cell_roots WHERE tenant = ? AND lane = ? AND version = ?;

-- name: drop_node
DELETE FROM cell_nodes WHERE tenant = ? AND lane = ? AND name = ?;

-- name: prune_cells
DELETE FROM cells WHERE tenant = ? AND lane = ?;

-- name: prune_deleted_cells
DELETE FROM deleted_cells WHERE tenant = ? AND lane = ?;

-- name: prune_roots
DELETE FROM cell_roots WHERE tenant = ? AND lane = ?;

-- name: prune_nodes
DELETE FROM cell_nodes WHERE tenant = ? AND lane = ?;
