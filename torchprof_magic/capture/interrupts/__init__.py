"""Interrupts and other signals wait while torch is between two states."""
