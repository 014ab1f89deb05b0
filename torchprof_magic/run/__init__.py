"""One run from start to report: open, record, finish, store, read, remember, clean up."""
