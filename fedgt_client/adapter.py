"""Flower messages to calls of ``FedGTClient``, and what it returns to messages."""

import json
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


class ClientCache:
    """Clients of one run that stay in memory, so that a round does not prepare them again."""

    def __init__(self) -> None:
        self._run_name = ""
        self._clients: dict[str, FedGTClient] = {}

    def client(self, context: Context) -> "FedGTClient":
        """Return the client for a node and a run; those of another run are dropped."""
        from fedgt_client.client import FedGTClient  # takes seconds to import: torch

        config = RunConfig.build(context.run_config)
        run_name = config.run_name or str(context.run_id)
        if self._run_name != run_name:
            self.clear()
            self._run_name = run_name
        key = json.dumps([context.node_config, context.run_config], sort_keys=True)
        if key not in self._clients:
            node = NodeConfig.parse(context.node_config)
            self._clients[key] = FedGTClient.open(node, config, run_name)
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
    client = clients.client(context)
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
    client = clients.client(context)
    upload, _, metrics = client.fit(
        NamedArrays(instruction.arrays),
        {
            "round": instruction.round_number,
            "best-round": instruction.best_round,
            "finish": instruction.finish,
        },
    )
    warnings = str(metrics.pop("warnings", ""))
    update = Update(
        client.institution,
        upload.as_dict(),
        {name: float(value) for name, value in metrics.items()},
        warnings.split("\n") if warnings else [],
    )
    return Message(update.to_records(client.precision), reply_to=message)
