"""The timeline, and its windows when there are millions of slices."""
