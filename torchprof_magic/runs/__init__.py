"""The runs that are known: those of this process, kept ones, and which of them a page can be compared with."""
