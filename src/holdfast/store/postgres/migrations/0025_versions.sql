-- Which Holdfast brought the schema up to date: an older one says by it which version is needed.
ALTER TABLE holdfast_schema ADD COLUMN holdfast text;
