"""What a script gets from `launch-bound-step`: a file that stands alone."""
