"""What an institution's own page shows, from its own state; ``deploy.page`` makes HTML of it."""
