"""Writing, locking and fetching files, and keeping credentials out of messages."""
