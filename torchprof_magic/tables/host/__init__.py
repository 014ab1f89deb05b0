"""Where the time of the host went."""
