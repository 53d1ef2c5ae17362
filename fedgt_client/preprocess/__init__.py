"""What an institution computes once from its subgraph, before the first round."""
