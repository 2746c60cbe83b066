"""The transport ``graphql``: queries and mutations, sent by HTTP. ``document`` reads what a document does."""
