"""Other activity of the process while steps are recorded: threads, tasks, open ranges, pauses."""
