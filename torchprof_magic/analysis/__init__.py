"""Analyses: pure functions from a trace to a shape, one analysis per file."""
