"""Shapes become what a person sees: the page, its widget, text, figures and HTML."""
