"""Bytes of a JSON file become typed events, batch by batch; damage is repaired and counted."""
