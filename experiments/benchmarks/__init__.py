"""``fedgt bench``: measurements of speed and memory."""
