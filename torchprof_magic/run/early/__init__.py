"""The report of a loop that still runs: what is recorded so far is read and analysed in another process."""
