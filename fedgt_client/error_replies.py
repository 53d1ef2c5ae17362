"""Answers in this process, and errors as answers."""

import logging
from collections.abc import Callable
from functools import wraps

from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode

from shared.errors import FedGTError

logger = logging.getLogger(__name__)

Handler = Callable[[Message, Context], Message]


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


@answering
def answer_here(message: Message, context: Context) -> Message:
    """Do what a message asks for in this process."""
    from fedgt_client.adapter import handle  # takes seconds to import: torch

    return handle(message, context)
