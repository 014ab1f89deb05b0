"""A cycle of times and a cycle of details become one recording."""
