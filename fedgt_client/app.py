"""The institution's Flower app: messages in, messages out."""

import json
import logging
from collections.abc import Callable
from functools import wraps

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

from fedgt_client.client import FedGTClient
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.wire import Instruction, Introduction, Profile, Question, Update

logger = logging.getLogger(__name__)

app = ClientApp()

Handler = Callable[[Message, Context], Message]

# Clients of the current run in this process, so that a round does not prepare them again.
_warm: dict[str, FedGTClient] = {}
_warm_run: list[str] = []


def answering(handle: Handler) -> Handler:
    """Answer with the reason where ``handle`` fails.

    Left to Flower, the coordinator would get what each of its runtimes makes of the exception;
    the traceback is for the institution's own log.
    """

    @wraps(handle)
    def answer(message: Message, context: Context) -> Message:
        try:
            return handle(message, context)
        except FedGTError as error:
            logger.error("%s", error)
            reason = str(error)
        except Exception as error:
            logger.exception("this institution cannot answer")
            reason = f"{type(error).__name__}: {error}"
        return Message(
            Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=reason), reply_to=message
        )

    return answer


@app.query()
@answering
def query(message: Message, context: Context) -> Message:
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


@app.train()
@answering
def train(message: Message, context: Context) -> Message:
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
