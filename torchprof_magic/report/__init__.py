"""What the user holds: a report, a comparison, their tables and pages."""
