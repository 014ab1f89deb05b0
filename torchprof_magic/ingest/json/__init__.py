"""Decodes a JSON file into typed events, batch by batch; damage is repaired and counted."""
