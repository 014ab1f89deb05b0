"""Callbacks with which the trainers of other libraries make the steps of a recording."""
