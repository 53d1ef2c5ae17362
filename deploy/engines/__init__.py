"""Engines that carry the messages of a run: one process, simulation, real SuperLink."""
