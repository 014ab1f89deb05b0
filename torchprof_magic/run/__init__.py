"""One run from start to report: open, record, finish, keep, read, remember, clean up."""
