"""Which code may run at an institution."""
