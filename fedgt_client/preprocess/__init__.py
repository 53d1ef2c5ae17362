"""What an institution computes once about its subgraph, before the first round."""
