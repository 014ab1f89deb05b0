"""A finished cycle becomes a complete, valid file on disk."""
