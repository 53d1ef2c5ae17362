"""Start-up kits: keys, certificates, scripts and instructions for every machine of a federation."""
