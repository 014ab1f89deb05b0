"""Reads a memory snapshot of torch into a ``Trace`` without unpickling it."""
