"""What the host does at every moment."""
