"""All code that depends on torch's internals and versions."""
