"""Pages that show a run: one HTML file, or the same served while the run goes on."""
