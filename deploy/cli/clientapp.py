"""The process that ``fedgt-superexec`` starts for each message to an institution."""

import argparse
import sys
from pathlib import Path

from flwr.app import Context, Message

from deploy.approval.unpack import unpack_approved
from deploy.flower.clientapp import run_clientapp


def main() -> None:
    """Run ``flwr-clientapp`` with the same options, and the approved hashes beside them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--approved", action="append", default=[])
    options, sys.argv[1:] = parser.parse_known_args()

    def unpack(bundle: bytes, home: Path) -> Path:
        return unpack_approved(bundle, options.approved, home)

    run_clientapp(unpack, _record)


def _record(reply: Message, context: Context) -> None:
    """Write a reply that the app has not made to the institution's outbound record."""
    # Not at the top: the app would be loaded from the package that is imported by then, and not
    # from the bundle.
    from fedgt_client.node import NodeConfig
    from fedgt_client.privacy.outbound import describe_reply, record_reply

    node = NodeConfig.parse(context.node_config)
    record_reply(node.state_root(), describe_reply(reply, reply, context, node.name))


if __name__ == "__main__":
    main()
