"""Is this machine ready? One line for each question, with the remedy where the answer is no."""
