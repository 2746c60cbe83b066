"""CNCF Serverless Workflow 1.0: documents read as definitions in jq (``importer``), and such definitions written as
documents (``exporter``). Both say all that is not supported at once, each with its place. Nothing here runs anything:
an imported document is an ordinary definition.

The data of the document's line, its ``.``, is ``local.data``; its ``$context`` is ``state.context``; ``$input``,
``$task``, ``$workflow`` and ``$runtime`` are names of blocks. A task is one node of its name; what belongs to it has
names that begin so: ``pay-give``, ``pay-export``."""
