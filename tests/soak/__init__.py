"""Long runs, for hours when nobody waits: ``make soak``."""
