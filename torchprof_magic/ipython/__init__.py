"""The only code that imports IPython: magics, the cell that runs under them, and what is displayed."""
