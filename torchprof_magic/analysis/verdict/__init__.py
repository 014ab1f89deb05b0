"""What limits the program, and what makes that doubtful."""
