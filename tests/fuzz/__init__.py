"""Mutated input for every parser of bytes that others wrote: ``make fuzz``."""
