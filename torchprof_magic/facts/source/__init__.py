"""Which line, function and module an event belongs to."""
