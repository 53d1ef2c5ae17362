"""The process that ``fedgt-superexec`` starts for each message to an institution."""

import argparse
import sys
from pathlib import Path

from deploy.approval.unpack import unpack_approved
from deploy.flower.clientapp import run_clientapp


def main() -> None:
    """Run ``flwr-clientapp`` with the same options, and the approved hashes beside them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--approved", action="append", default=[])
    options, sys.argv[1:] = parser.parse_known_args()

    def unpack(bundle: bytes, home: Path) -> Path:
        return unpack_approved(bundle, options.approved, home)

    run_clientapp(unpack)


if __name__ == "__main__":
    main()
