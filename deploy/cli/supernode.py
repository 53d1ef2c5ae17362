"""Flower's supernode, which ends when its connection does.

After an answer it does not expect (a database that was locked for a moment), ``flower-supernode``
leaves the federation but lives on, because its server thread does. Ended, it can be started again.
"""

import os
import sys
import traceback

from flwr.supernode.cli import flower_supernode


def main() -> None:
    """Run ``flower-supernode`` with the same options."""
    try:
        flower_supernode()
    except Exception:
        traceback.print_exc()
    # It was not asked to end: that would have been a SystemExit.
    sys.stderr.flush()
    os._exit(1)
