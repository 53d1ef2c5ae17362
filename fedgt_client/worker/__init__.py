"""The resident process that keeps torch, graph and model in memory between rounds."""
