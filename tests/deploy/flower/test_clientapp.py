"""Errors that Flower answers with itself: their texts stay at the institution."""

import subprocess
import sys

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

from deploy.flower import clientapp
from deploy.flower.clientapp import with_plain_reasons
from deploy.flower.messages import identify_as_superlink
from shared.flower import error_reply


def sent(reason: str, code: int = ErrorCode.CLIENT_APP_RAISED_EXCEPTION) -> tuple[str, list[str]]:
    """Return the reason that leaves, and those that were written down here."""
    left: list[str] = []
    recorded: list[str] = []
    push = with_plain_reasons(
        lambda _client, message, _context: left.append(message.error.reason),
        lambda message, _context: recorded.append(str(message.error.reason)),
    )
    identify_as_superlink(7)
    message = Message(RecordDict(), 1, "train")
    reply = Message(Error(code, reason), reply_to=message)
    push(None, reply, Context(1, 1, {}, RecordDict(), {}))
    return left[0], recorded


def test_the_text_of_an_exception_stays_here() -> None:
    plain = "this institution's app could not answer: its log says why"
    for reason, code in (
        ("<class 'FedGTError'>:<'/home/bank/kit is not a folder'>", 2),
        ("An exception was raised when attempting to load `ClientApp`", 1),
    ):
        assert sent(reason, code) == (plain, [plain])


def test_what_the_app_says_itself_is_left_alone() -> None:
    """It is written down by the app."""
    identify_as_superlink(7)
    message = Message(RecordDict(), 1, "train")
    reason = str(error_reply(message, "bank-a refuses the run: rounds = 5000").error.reason)
    assert sent(reason) == (reason, [])


def test_an_answer_that_nobody_takes_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(clientapp, "log", lambda _, text, *values: said.append(text % values))

    def push(*_: object) -> None:
        raise ObjectPushError("0" * 64, 7, "session")

    identify_as_superlink(7)
    message = Message(RecordDict(), 1, "train")
    reply = Message(RecordDict(), reply_to=message)
    push_plainly = with_plain_reasons(push, lambda *_: None)
    push_plainly(None, reply, Context(1, 1, {}, RecordDict(), {}))
    assert [line.partition(":")[0] for line in said] == [
        "the answer was not taken, as of a run that was stopped"
    ]


def test_the_app_is_not_imported_before_its_bundle() -> None:
    """Python would go on with the installed package, whatever the bundle holds."""
    code = "import sys, deploy.cli.clientapp; print('fedgt_client' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
