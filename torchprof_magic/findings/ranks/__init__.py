"""Who is late among the ranks of a job."""
