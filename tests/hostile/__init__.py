"""Texts that attack whatever shows them, and recordings that carry each of them in every field."""
