"""Reads what a program said of the work of CUDA graphs, and lays it beside their replays."""
