"""The compiler: from a document in the format's words to a checked definition with canonical bytes, and back."""
