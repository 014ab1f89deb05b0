"""The tables and lists of torch's own profiler, rebuilt from a trace by its rules."""
