"""The steps of a cell: which of its loops makes them, and the calls that report each iteration of it."""
