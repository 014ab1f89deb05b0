"""Blocks of memory, their lives, and how much is in use."""
