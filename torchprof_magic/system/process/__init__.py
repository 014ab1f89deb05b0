"""What belongs to the user's whole process: imports, warnings, threads, and memory with its limits."""
