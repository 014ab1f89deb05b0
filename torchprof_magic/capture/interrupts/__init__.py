"""Interrupts and other signals wait while torch changes its state."""
