"""The ways people start FedGT: command line, one process, simulation, real machines."""
