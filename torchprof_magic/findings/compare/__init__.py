"""What changed from one run to another, and how sure is that."""
