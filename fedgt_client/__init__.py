"""One institution: its subgraph, its graph transformer, its durable state."""
