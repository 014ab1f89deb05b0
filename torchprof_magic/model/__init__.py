"""The data model: what happened (``Trace``) and what can be shown (the shapes). No input or output."""
