"""Many ranks of one job: what each sends, how they are joined, and who is late."""
