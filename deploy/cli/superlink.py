"""``fedgt-superlink``: Flower's SuperLink, which does what its operator asks for."""

import argparse
import sys
from pathlib import Path

from deploy.engines.ports import why_not_free
from deploy.flower.superlink import run_superlink
from deploy.operator_secret import read_operator_secret
from shared.errors import FedGTError


def main() -> None:
    """Run ``flower-superlink`` with the same options, and the file of the secret beside them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--operator-secret-file", type=Path, default=Path("operator.secret"))
    options, sys.argv[1:] = parser.parse_known_args()
    _check_ports()
    try:
        run_superlink(lambda: read_operator_secret(options.operator_secret_file))
    except FedGTError as error:
        print(f"fedgt-superlink: {error}", file=sys.stderr)
        sys.exit(2)


def _check_ports() -> None:
    """End where another program has a port, which may be another SuperLink of this kit."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--host", default="")
    parser.add_argument("--port", default="")
    parser.add_argument("--fleet-api-address", default="")
    found, _ = parser.parse_known_args()
    fleet_host, _, fleet_port = found.fleet_api_address.rpartition(":")
    for host, port in ((fleet_host, fleet_port), (found.host, found.port)):
        if host and port.isdecimal() and (reason := why_not_free(host.strip("[]"), int(port))):
            print(
                f"fedgt-superlink: {host}:{port} cannot be used ({reason}): end what uses it, "
                "another SuperLink perhaps, or name another port in federation.toml",
                file=sys.stderr,
            )
            sys.exit(1)  # not 2: it may be free soon, and a service tries again


if __name__ == "__main__":
    main()
