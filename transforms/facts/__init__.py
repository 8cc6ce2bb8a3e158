"""What the code of a file means, computed once and asked by every rule."""
