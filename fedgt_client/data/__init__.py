"""Real graphs in, the subgraphs of institutions out."""
