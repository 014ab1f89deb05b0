"""The work of the device: kernels by what they are called, and how they were launched."""
