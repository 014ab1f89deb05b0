"""What is said of a recording, with its words."""
