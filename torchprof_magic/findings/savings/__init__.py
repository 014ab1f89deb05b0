"""What would lower the peak of memory."""
