"""The ops: their calls, groups and FLOPs."""
