"""What the institution does with a message, with clients that stay warm between them."""

import json

from flwr.app import Context, Message, MessageType

from fedgt_client.client import FedGTClient
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.wire import Instruction, Introduction, Profile, Question, Update

# Clients of the current run in this process, so that a round does not prepare them again.
_warm: dict[str, FedGTClient] = {}
_warm_run: list[str] = []


def handle(message: Message, context: Context) -> Message:
    """Answer a message."""
    kind = message.metadata.message_type
    if kind == MessageType.QUERY:
        return _query(message, context)
    if kind == MessageType.TRAIN:
        return _train(message, context)
    raise FedGTError(f"a message asks to '{kind}': is the other side another version of FedGT?")


def _query(message: Message, context: Context) -> Message:
    """Introduce this institution, with the starting point where it is asked for."""
    question = Question.from_records(message.content)
    client = _client(context)
    properties = client.get_properties({})
    profile = Profile(**json.loads(str(properties["profile"])))
    initial = client.get_parameters({}) if question.want_initial else []
    answer = Introduction(
        str(properties["institution"]),
        profile,
        dict(zip(profile.parameters, initial, strict=False)),
    )
    return Message(answer.to_records(), reply_to=message)


def _train(message: Message, context: Context) -> Message:
    """Play a round."""
    instruction = Instruction.from_records(message.content)
    client = _client(context)
    arrays, _, metrics = client.fit(
        list(instruction.arrays.values()),
        {
            "round": instruction.round_number,
            "best-round": instruction.best_round,
            "finish": instruction.finish,
            "names": json.dumps(list(instruction.arrays)),
        },
    )
    names, warnings = (json.loads(str(metrics.pop(key))) for key in ("names", "warnings"))
    answer = Update(
        client.institution,
        dict(zip(names, arrays, strict=True)),
        {name: float(value) for name, value in metrics.items()},
        warnings,
    )
    return Message(answer.to_records(), reply_to=message)


def _client(context: Context) -> FedGTClient:
    config = RunConfig.build(context.run_config)
    run_name = config.run_name or str(context.run_id)
    if _warm_run != [run_name]:
        _warm.clear()
        _warm_run[:] = [run_name]
    key = json.dumps([context.node_config, context.run_config], sort_keys=True)
    if key not in _warm:
        _warm[key] = FedGTClient.open(context.node_config, config, run_name)
    return _warm[key]
