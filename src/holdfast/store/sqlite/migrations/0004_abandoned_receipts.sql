-- A receipt of unknown outcome that nobody waits for says so in a field of its own; so far its error ended in these words.
-- A body is a JSON object, and the field is its last.

UPDATE receipts SET body = substr(body, 1, length(body) - 1) || ',"abandoned":true}'
WHERE state = 'unknown' AND body LIKE '%nobody waited for its outcome any more"%';
