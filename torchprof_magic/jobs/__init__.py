"""Many ranks of one job as one report: found, read on any engine, joined and shown."""
