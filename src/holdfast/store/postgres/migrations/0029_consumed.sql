-- What came too late for a run's end was dropped with it, and a run that was renewed since still counted it as waiting.
UPDATE runs SET consumed = coalesce(
    (SELECT min(position) - 1 FROM inbox WHERE inbox.tenant = runs.tenant AND inbox.run = runs.id), arrived
)
WHERE ended_at IS NULL AND arrived > consumed;
