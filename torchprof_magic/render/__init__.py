"""Renders shapes as the live view, text, figures and HTML."""
