"""What limits the program."""
