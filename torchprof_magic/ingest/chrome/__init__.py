"""Turns the events of a Kineto Chrome trace into a ``Trace``."""
