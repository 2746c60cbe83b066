-- Which Holdfast brought the schema up to date: an older one says by it which version is needed.
CREATE TABLE schema_versions (
    number   INTEGER PRIMARY KEY,
    holdfast TEXT NOT NULL
);
