"""Running a federation for months: status, backup, cleaning up."""
