"""Ops and kernels, called by what they do, and as torch lists them."""
