"""One model of the steps: what must wait for what, replayed with other times, and the path that decides."""
