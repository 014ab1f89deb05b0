"""The machine around us: files and the process."""
