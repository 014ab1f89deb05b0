"""Time and memory at the user's code: its lines and its modules."""
