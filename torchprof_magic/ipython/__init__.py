"""The IPython integration: magics, flags, commands, and how a cell runs under them."""
