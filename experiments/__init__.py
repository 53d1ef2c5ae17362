"""The tables and figures of the paper as code, results as data."""
