"""Rules for code that makes the device wait for the host to feed it."""
