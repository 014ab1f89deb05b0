"""What the device did: names and types of kernels, launches, idle times and their causes."""
