"""Reads a saved run (``.torchprof``) into a ``Trace``."""
