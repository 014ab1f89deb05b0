"""A memory snapshot of torch becomes a ``Trace``, without unpickling it."""
