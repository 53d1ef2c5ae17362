"""Command line, engines, provisioning and checks: how FedGT is started and deployed."""
