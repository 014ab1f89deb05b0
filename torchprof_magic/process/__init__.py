"""What belongs to the user's whole process and is borrowed for a moment: imports, warnings, memory."""
