"""Events of a Kineto chrome trace become exact columns, and those a ``Trace``."""
