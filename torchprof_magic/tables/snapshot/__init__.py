"""What a memory snapshot tells."""
