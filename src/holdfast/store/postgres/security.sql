-- name: secure_rows
-- A second wall for whoever reads over SQL: a role that may only read sees the rows of one tenant, the one that its
-- transaction names in holdfast.tenant, and none where it names none. A role that may write is an engine and sees all;
-- the owner of the tables is not even asked. So no role has a name here, and the engine pays nothing.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'artefacts', 'audit', 'blob_uses', 'blobs', 'blocks', 'cell_nodes', 'cell_roots', 'cells', 'chain_ends',
        'checkpoints', 'code', 'dead_letters', 'declined', 'definitions', 'deleted_cells',
        'deliveries', 'held_events', 'holders', 'inbox', 'items', 'orphaned_receipts', 'progress', 'receipts', 'runs', 'segments',
        'takings', 'tasks', 'work',
        'write_counts'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('DROP POLICY IF EXISTS holdfast_readers ON %I', name);
        EXECUTE format(
            'CREATE POLICY holdfast_readers ON %I FOR SELECT USING (tenant = current_setting(''holdfast.tenant'', true))',
            name
        );
        EXECUTE format('DROP POLICY IF EXISTS holdfast_engines ON %I', name);
        EXECUTE format(
            'CREATE POLICY holdfast_engines ON %I USING (has_table_privilege(%L::regclass, ''INSERT''))', name, name
        );
    END LOOP;
END
$$;
