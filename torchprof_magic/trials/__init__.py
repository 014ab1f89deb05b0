"""Measures advice on this machine, on the recorded shapes and random numbers. Needs torch."""

from __future__ import annotations

from torchprof_magic.trials.measure import Tried, run_trial

__all__ = ["Tried", "run_trial"]
