"""Why the device idles, and what the host waits for."""
