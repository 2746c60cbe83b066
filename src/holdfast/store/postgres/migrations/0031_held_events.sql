-- What is held for the cells of machines: a row for each event, by its number. Without an event it is held no more: a mark,
-- until the next root of the lane.

CREATE TABLE held_events (
    tenant  text   NOT NULL,
    lane    text   NOT NULL,
    key     bytea  NOT NULL,
    number  bigint NOT NULL,
    event   bytea,
    version bigint NOT NULL,
    PRIMARY KEY (tenant, lane, key, number)
);
CREATE INDEX held_events_unrooted ON held_events (tenant, lane, version);
CREATE INDEX held_events_marked ON held_events (tenant, lane, version) WHERE event IS NULL;
