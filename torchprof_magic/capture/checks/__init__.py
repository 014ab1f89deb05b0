"""What is checked before a recording, and what is said when steps are missing."""
