"""Stacks, and what they took."""
