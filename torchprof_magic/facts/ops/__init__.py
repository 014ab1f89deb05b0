"""Calls of ops, their FLOPs, and the same as torch counts them."""
