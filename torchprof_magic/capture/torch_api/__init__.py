"""Everything that knows torch's internals and versions."""
