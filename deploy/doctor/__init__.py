"""Is this institution ready? One line for each question, with the remedy where the answer is no."""
