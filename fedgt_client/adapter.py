"""Flower messages to calls of ``FedGTClient``, and what it returns to messages."""

import json
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flwr.app import Context, Message, MessageType

from fedgt_client.named_arrays import NamedArrays
from fedgt_client.node import NodeConfig
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.wire import Instruction, Introduction, Profile, Question, Update

if TYPE_CHECKING:
    from fedgt_client.client import FedGTClient

logger = logging.getLogger(__name__)


class ClientCache:
    """Clients of one run that stay in memory, so that a round does not prepare them again."""

    def __init__(self) -> None:
        self._run = ("", "")
        self._clients: dict[str, FedGTClient] = {}

    def client(self, context: Context, run_token: str) -> "FedGTClient":
        """Return the client for a node and a run; those of another run are dropped."""
        # Takes seconds to import: torch.
        from fedgt_client.client import FedGTClient
        from fedgt_client.methods import method_class

        config = RunConfig.build(context.run_config)
        run_name = config.run_name or str(context.run_id)
        if self._run != (run_name, run_token):
            self.clear()
            self._run = (run_name, run_token)
        key = json.dumps([context.node_config, context.run_config], sort_keys=True)
        if key not in self._clients:
            node = NodeConfig.parse(context.node_config)
            if limits := node.limits:
                limits.check(node.name, config, method_class(config.method).uploads)
            self._clients[key] = FedGTClient.open(node, config, run_name, run_token)
        return self._clients[key]

    def clear(self) -> None:
        """Drop all clients."""
        self._clients.clear()

    def __iter__(self) -> "Iterator[FedGTClient]":
        return iter(self._clients.values())


def handle(message: Message, context: Context, clients: ClientCache) -> Message:
    """Do what a message asks for, and reply."""
    kind = message.metadata.message_type
    if kind == MessageType.QUERY:
        return _query(message, context, clients)
    if kind == MessageType.TRAIN:
        return _train(message, context, clients)
    raise FedGTError(f"a message asks to '{kind}': is the other side another version of FedGT?")


def _query(message: Message, context: Context, clients: ClientCache) -> Message:
    """Introduce this institution, with the starting point where it is asked for."""
    question = Question.from_records(message.content)
    _log_notice(question.notice)
    client = clients.client(context, question.run_token)
    properties = client.get_properties({})
    introduction = Introduction(
        str(properties["institution"]),
        Profile(**json.loads(str(properties["profile"]))),
        client.get_parameters({}).as_dict() if question.want_initial else {},
    )
    return Message(introduction.to_records(), reply_to=message)


def _train(message: Message, context: Context, clients: ClientCache) -> Message:
    """Train for a round."""
    instruction = Instruction.from_records(message.content)
    _log_notice(instruction.notice)
    client = clients.client(context, instruction.run_token)
    upload, _, metrics = client.fit(
        NamedArrays(instruction.arrays),
        {
            "round": instruction.round_number,
            "best-round": instruction.best_round,
            "finish": instruction.finish,
            "last-round": instruction.last_round,
        },
    )
    warnings = str(metrics.pop("warnings", ""))
    update = Update(
        client.institution,
        upload.as_dict(),
        {name: float(value) for name, value in metrics.items()},
        warnings.split("\n") if warnings else [],
    )
    packed = upload.packed(client.precision) if upload else b""
    return Message(update.to_records(packed=packed), reply_to=message)


def _log_notice(notice: str) -> None:
    if notice:
        logger.warning("the coordinator says: %s", notice)
