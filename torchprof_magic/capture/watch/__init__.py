"""What else happens in the process while steps are recorded: threads, tasks, open ranges, pauses."""
