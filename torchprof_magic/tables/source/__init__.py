"""Lines and modules."""
