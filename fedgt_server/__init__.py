"""The coordinator: no torch, no graph data."""
