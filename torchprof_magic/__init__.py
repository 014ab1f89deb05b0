"""Profile PyTorch inside the notebook cell."""

__version__ = "0.1.0"
