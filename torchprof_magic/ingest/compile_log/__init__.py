"""Logs of torch.compile, as ``TORCH_TRACE`` has them written."""
