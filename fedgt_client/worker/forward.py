"""A message to the institution's worker, and its answer back."""

import logging
import time

from flwr.app import Context, Message, MessageType

from fedgt_client.worker import transport
from fedgt_client.worker.process import Order, Residence, end, reach
from fedgt_client.worker.supernode import Supernode
from shared.config import RunConfig
from shared.errors import FedGTError

logger = logging.getLogger(__name__)

# Found when Flower loads the app. This process may outlive the supernode for a while; whoever is
# its parent then must not be taken for one.
SUPERNODE = Supernode.of_this_process()

_GRACE = 10.0  # seconds to end a worker that does not answer


class TooLateError(FedGTError):
    """Nobody waits for the answer any more."""


def forward(message: Message, context: Context) -> Message:
    """Let the worker answer, by the round's deadline."""
    config = RunConfig.build(context.run_config)
    home = Residence.of(context.node_config)
    order = Order(context.run_id, config.worker_idle, SUPERNODE)
    try:
        return _ask(home, order, message, context, _until(config.round_deadline))
    except TooLateError:
        # A round's result is of no use now, and the next round must not wait for it. An
        # institution that prepares its graph for the first time may go on with that.
        if message.metadata.message_type == MessageType.TRAIN:
            end(home, context.run_id, _until(_GRACE))
        raise


def _ask(
    home: Residence, order: Order, message: Message, context: Context, check: transport.Check
) -> Message:
    """The worker's answer.

    A worker that ends without one is replaced once by another, which goes on from the durable
    state: a round that was played already is played again from the state before it.
    """
    dropped_by = None
    for _ in range(2):
        pid, line = reach(home, order, check, but_not=dropped_by)
        try:
            with line:
                transport.send_request(line, message, context, check)
                return transport.receive_reply(line, check)
        except ConnectionError:
            logger.warning("worker %d ended without an answer", pid)
            dropped_by = pid
    raise FedGTError(
        "this institution's worker ended twice without an answer: see the supernode's log, and "
        "whether its memory suffices"
    )


def _until(seconds: float) -> transport.Check:
    deadline = time.monotonic() + seconds

    def check() -> None:
        if SUPERNODE.is_gone():
            raise FedGTError("this institution's supernode has ended")
        if time.monotonic() > deadline:
            raise TooLateError(f"this institution's worker did not answer within {seconds:g} s")

    return check
