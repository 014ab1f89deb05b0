"""Execution traces of torch: the ops and tensors of a run, without times."""
