-- What is held for the cells of machines: a row for each event, by its number. Without an event it is held no more: a mark,
-- until the next root of the lane.

CREATE TABLE held_events (
    tenant  TEXT    NOT NULL,
    lane    TEXT    NOT NULL,
    key     BLOB    NOT NULL,
    number  INTEGER NOT NULL,
    event   BLOB,
    version INTEGER NOT NULL,
    PRIMARY KEY (tenant, lane, key, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX held_events_unrooted ON held_events (tenant, lane, version);
CREATE INDEX held_events_marked ON held_events (tenant, lane, version) WHERE event IS NULL;
