"""A tenant's templates, their instances, and the events that start some."""
