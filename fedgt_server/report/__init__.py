"""What the page of a run shows, from the journal; ``deploy.page`` makes HTML of it."""
