"""Checks of a kit before it is used, with a remedy for each that fails."""
