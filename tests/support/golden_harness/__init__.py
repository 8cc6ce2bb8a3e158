"""Runs a golden before and after its rewrite on hard inputs, and compares what a training could notice."""
