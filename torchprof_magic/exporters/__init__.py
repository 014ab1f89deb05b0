"""A trace or a page becomes a file for someone else."""
