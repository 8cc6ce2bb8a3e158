"""Runs a golden before and after its rewrite on hard inputs, and compares all that a training could notice."""
