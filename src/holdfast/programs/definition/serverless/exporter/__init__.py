"""From a definition in jq to a document: the importer's modules the other way round."""
