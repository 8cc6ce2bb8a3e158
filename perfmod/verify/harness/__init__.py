"""The part that runs in the user's interpreter: this folder goes on PYTHONPATH; it imports the standard library and torch only."""
