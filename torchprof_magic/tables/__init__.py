"""One question a file: a trace, and a part of its time, becomes a shape."""
