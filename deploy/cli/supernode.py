"""``fedgt-supernode``: Flower's supernode in a process that ends when its connection does.

After an unexpected answer (a database that was locked for a moment), ``flower-supernode`` leaves
the federation but its server thread keeps the process alive. A process that ends is restarted by
the start script.
"""

import os
import sys
import traceback

from deploy.flower import run_supernode


def main() -> None:
    """Run ``flower-supernode`` with the same options."""
    try:
        run_supernode()
    except Exception:
        traceback.print_exc()
    # A requested end raises SystemExit and does not come here.
    sys.stderr.flush()
    os._exit(1)
