"""Replies that say why a message cannot be answered."""

import logging
from collections.abc import Callable

from flwr.app import Message

from shared.errors import FedGTError
from shared.flower import error_reply

logger = logging.getLogger(__name__)


def reply_or_error(message: Message, make_reply: Callable[[], Message]) -> Message:
    """Return the reply to ``message``, or an error reply where making it fails.

    Left to Flower, the coordinator would get what each of its runtimes makes of the exception;
    the traceback is for the institution's own log.
    """
    try:
        return make_reply()
    except FedGTError as error:
        logger.error("%s", error)
        return error_reply(message, str(error))
    except Exception as error:
        logger.exception("this institution cannot answer")
        return error_reply(message, f"{type(error).__name__}: {error}")
