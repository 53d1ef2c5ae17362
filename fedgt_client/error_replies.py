"""Replies that say why a message cannot be answered."""

import logging
from collections.abc import Callable

from flwr.app import Message

from shared.errors import ConfidentialError, FedGTError
from shared.flower import error_reply
from shared.text import plain_line, without_paths

logger = logging.getLogger(__name__)

_LONGEST = 4000  # characters of a reason: a refusal lists every problem


def reply_or_error(
    message: Message, make_reply: Callable[[], Message], *, simulated: bool = False
) -> Message:
    """Return the reply to ``message``, or an error reply where making it fails.

    Paths, values and the traceback stay here, in the institution's own log; the coordinator gets
    the reason in words. In a simulation the same person reads both.
    """
    try:
        return make_reply()
    except ConfidentialError as error:
        logger.error("%s", error)
        return error_reply(message, str(error) if simulated else error.told)
    except FedGTError as error:
        line = plain_line(str(error), _LONGEST)  # it may quote what the coordinator wrote
        logger.error("%s", line)
        return error_reply(message, line if simulated else without_paths(line))
    except OSError as error:  # a disk, folder or socket, which somebody here can repair
        logger.error("%s", error)
        if simulated:
            return error_reply(message, str(error))
        return error_reply(message, f"this institution's machine: {_cause(error)}")
    except Exception as error:
        logger.exception("this institution cannot answer")
        kind = type(error).__name__
        if simulated:
            return error_reply(message, f"{kind}: {error}")
        return error_reply(message, f"this institution's app failed ({kind}): its log says why")


def _cause(error: OSError) -> str:
    what = "a file or folder of its own" if error.filename else "its system"
    return f"{what}: {error.strerror or type(error).__name__}"
