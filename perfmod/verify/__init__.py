"""`perfmod verify`: is the training the same, and is it faster? Runs scripts that nobody edited, and judges."""
