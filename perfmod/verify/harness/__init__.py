"""The part that runs in the user's interpreter: this folder goes on PYTHONPATH.

It imports nothing but the standard library and torch.
"""
