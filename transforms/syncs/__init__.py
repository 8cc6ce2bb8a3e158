"""Rules for code that makes the host wait for the device inside a training step."""
