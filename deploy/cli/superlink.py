"""``fedgt-superlink``: Flower's SuperLink, which does what its operator asks for."""

import argparse
import sys
from pathlib import Path

from deploy.flower.superlink import run_superlink
from deploy.operator_secret import read_operator_secret
from shared.errors import FedGTError


def main() -> None:
    """Run ``flower-superlink`` with the same options, and the file of the secret beside them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--operator-secret-file", type=Path, default=Path("operator.secret"))
    options, sys.argv[1:] = parser.parse_known_args()
    try:
        run_superlink(lambda: read_operator_secret(options.operator_secret_file))
    except FedGTError as error:
        print(f"fedgt-superlink: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
