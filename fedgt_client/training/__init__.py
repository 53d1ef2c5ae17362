"""How a model is trained and evaluated on an institution's subgraph, whatever the method."""
