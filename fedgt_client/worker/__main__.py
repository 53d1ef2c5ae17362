"""Run as ``python -m fedgt_client.worker``."""

from fedgt_client.worker.loop import main

main()
