"""What a run's uploads give away: attacks by the coordinator, with the truth beside them."""
