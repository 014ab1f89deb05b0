"""A saved run (``.torchprof``) becomes a ``Trace``."""
