"""Graph transformer and the backbones of the other methods."""
