"""Every thread and stream over time."""
