"""Rules against work that the device does without need."""
