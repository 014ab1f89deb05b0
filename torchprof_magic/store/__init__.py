"""The folder where the user keeps traces: file names, copies, the newest N, and uploads that outlive the kernel."""
