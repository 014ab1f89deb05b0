"""Joins a cycle recorded for its times and a cycle recorded for its details into one recording."""
