"""The flame graph: merged calls as boxes."""
