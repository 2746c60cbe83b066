"""Where everything stands: parts in, a picture with exact coordinates out."""
