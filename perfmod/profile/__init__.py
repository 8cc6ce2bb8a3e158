"""`perfmod profile`: what a training step waits for, on the user's GPU, and what each way to speed it up could gain."""
