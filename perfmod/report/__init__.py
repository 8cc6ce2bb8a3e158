"""What a run has to say: typed rows, and the renderers that print them."""
