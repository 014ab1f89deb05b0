"""Reads memory timelines as torch's ``export_memory_timeline`` writes them."""
