"""What leaves an institution: noise before upload, and the ledger of what was spent."""
