"""FedGTStrategy: what each institution is sent in a round, and what becomes of the replies."""

import logging
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedgt_server.admission import update_error
from fedgt_server.best_round import BestRoundChoice
from fedgt_server.checkpoint import BestRound, Checkpoint, CheckpointFacts, LastPart
from fedgt_server.events import InstitutionRound, RoundEvent, mean_metric
from fedgt_server.exchange import Replies, error_line
from fedgt_server.introduction import Newcomers, gather
from fedgt_server.members import Members
from fedgt_server.methods import RoundReport, ServerMethod, server_method
from fedgt_server.screening import Screening
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.packing import Shapes
from shared.wire import (
    COMMON,
    COMMON_GRADIENTS,
    EPSILON,
    UPLOAD_WITHHELD,
    WEIGHTS,
    Arrays,
    Instruction,
    Profile,
    Update,
    count_bytes,
    new_run_token,
    selection_metric,
    smaller_is_better,
)

logger = logging.getLogger(__name__)

# Characters of a reason that the journal keeps: the other party writes some of them.
_REASON = 300


@dataclass
class _Accepted:
    """An update that can be averaged."""

    update: Update  # what the method needs of it until the round is complete
    size: int  # bytes of the whole message
    uploads: dict[str, int]  # bytes of its arrays


@dataclass
class _Round:
    """The round that is being played."""

    number: int = 0
    started: float = field(default_factory=time.monotonic)
    members: set[str] = field(default_factory=set)  # admitted when it began
    accepted: dict[str, _Accepted] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  # why an update is not among them


class FedGTStrategy(Strategy):
    """A Flower strategy that sends each institution a message of its own.

    It can be used with Flower's ``start``, or within ``RoundLoop``, which adds a quorum that is
    waited for, checkpoints and a journal. A round is played by ``configure_train`` and
    ``aggregate_train``, which may be repeated for the same round until it is complete.

    Parameters
    ----------
    config : the settings of the run
    method : what is sent and how it is aggregated; by default the method that ``config`` names
    """

    def __init__(self, config: RunConfig, method: ServerMethod | None = None) -> None:
        self.config = config
        self.run_token = new_run_token()
        self.last_parts: dict[str, LastPart] = {}
        self.members = Members(run_token=self.run_token, columns=config.agreed_columns)
        self._choice = BestRoundChoice(
            selection_metric(config.select_by),
            smaller_is_better=smaller_is_better(config.select_by),
            robust=config.robust,
        )
        self.last_round: RoundEvent | None = None  # the last that was completed
        self._method = method or server_method(config)
        self._has_model = False  # the method has its starting point
        self._newcomers = Newcomers()
        self._round = _Round()
        self._bytes_down: dict[str, int] = {}
        self._notices: dict[str, str] = {}  # what an institution is told with its next message
        self._screening = Screening()

    @property
    def best(self) -> BestRound | None:
        """The best round so far."""
        return self._choice.best

    def summary(self) -> None:
        """Log the settings that differ from the defaults."""
        usual = RunConfig.build().to_flower()
        for key, value in self.config.to_flower().items():
            if value != usual[key]:
                logger.info("  %s = %s", key, value)

    def introduce(self, grid: Grid, arrays: ArrayRecord | None = None) -> None:
        """Wait until enough institutions have introduced themselves, and take a starting point.

        That is ``arrays`` by the names of the model's parameters; without them an institution is
        asked for it.
        """
        want_initial = not arrays and not self._has_model
        initial = gather(grid, self.members, self.config, want_initial=want_initial)
        if not self._has_model:
            self._method.begin(self._checked(arrays) if arrays else initial)
            self._has_model = True

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return messages to all connected institutions without an accepted update this round.

        In the first round institutions introduce themselves first, unless they did so before;
        those that connect later take part from the round after on.
        """
        if not self.members.names():
            self.introduce(grid, arrays)
        self._newcomers.admit(grid, self.members, self.config.round_deadline)
        current = self._enter(server_round)
        # One at a time, as they are sent: together they may not fit into memory.
        return (
            self._message(
                node,
                name,
                self._instruction(server_round, name, self._method.message(name)),
            )
            for node, name in self.members.online(grid).items()
            if name not in current.accepted
        )

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregate the updates that can be averaged, once there are ``min-institutions``.

        Returns
        -------
        arrays : None, because there is no one model for all
        metrics : mean accuracies; None where the round is not complete and may be asked again
        """
        accepted = self._enter(server_round).accepted
        accepted.update(self._accept(replies))
        if len(accepted) < self.config.min_institutions:
            logger.warning("round %d is not complete: %s", server_round, self.progress())
            return None, None
        self.last_round = self._aggregate(self._round)
        means = {
            "val_accuracy": self.last_round.val_accuracy,
            "test_accuracy": self.last_round.test_accuracy,
        }
        return None, MetricRecord({k: v for k, v in means.items() if v is not None})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return no messages: institutions evaluate in their reply to the training message."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return nothing: see ``configure_evaluate``."""
        return None

    def finish_messages(self, last_round: int, grid: Grid) -> list[Message]:
        """Return messages that tell connected institutions the best round and that it is over."""
        return [
            self._message(node, name, self._instruction(last_round + 1, name, {}, finish=True))
            for node, name in self.members.online(grid).items()
        ]

    def progress(self) -> str:
        """Say how many institutions have answered in this round, of those needed."""
        accepted, needed = len(self._round.accepted), self.config.min_institutions
        return f"{accepted} of {needed} institutions answered"

    def note_failures(self, failures: Replies) -> None:
        """Log who could not answer in this round and why, and keep it for the journal."""
        self.members.log_failures(failures)
        for node, reason in (failures.raised | failures.lost).items():
            if name := self.members.name_of(node):
                self._round.left_out[name] = shorten(reason)

    def note_silent(self, names: Iterable[str], seconds: float) -> None:
        """Log who did not answer in this round, and keep it for the journal."""
        for name in sorted(names):
            logger.warning("%s did not answer within %.0f s", name, seconds)
            self._round.left_out[name] = f"no answer within {seconds:.0f} s"

    def checkpoint(self, round_number: int) -> Checkpoint:
        """Return all that is needed to continue after this round."""
        facts = CheckpointFacts(
            config=self.config.to_flower(),
            best=self.best,
            profile=self.members.profile,
            run_token=self.run_token,
            last_parts=self.last_parts,
            conducts=self._screening.conducts,
            standings=self._choice.standings,
        )
        return Checkpoint(round_number, facts, self._method.state_dict())

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        self._choice.best = checkpoint.facts.best
        self._choice.standings = dict(checkpoint.facts.standings)
        self.run_token = checkpoint.facts.run_token
        self.last_parts = dict(checkpoint.facts.last_parts)
        self._screening = Screening(checkpoint.facts.conducts)
        self.members = Members(checkpoint.facts.profile, self.run_token, self.config.agreed_columns)
        self._method.load_state_dict(checkpoint.arrays)
        self._has_model = True

    def take_notices(self) -> list[str]:
        """Return what the journal should say of institutions that were not admitted, once."""
        lines, self.members.notices = self.members.notices, []
        return lines

    def _enter(self, number: int) -> _Round:
        """Return the state of a round, a new one where another round was played before."""
        if self._round.number != number:
            self._round = _Round(number, members=self.members.names())
        return self._round

    def _instruction(
        self, number: int, name: str, arrays: Arrays, *, finish: bool = False
    ) -> Instruction:
        last = self.last_parts.get(name)
        return Instruction(
            number,
            arrays,
            # In every message: whoever misses one learns it from the next.
            self._choice.round_of(name),
            finish,
            self.run_token,
            last.round_number if last else 0,
            self._notices.pop(name, ""),
        )

    def _message(self, node: int, name: str, instruction: Instruction) -> Message:
        # Rounded here and nowhere else: a method keeps what it sends in full precision and adds
        # updates to that, so that even changes smaller than the rounding are not lost.
        records = instruction.to_records(self.config.wire_precision)
        self._bytes_down[name] = count_bytes(records)
        return Message(
            records,
            node,
            MessageType.TRAIN,
            group_id=str(instruction.round_number),
            ttl=self.config.round_deadline,
        )

    def _accept(self, replies: Iterable[Message]) -> Iterator[tuple[str, _Accepted]]:
        """Yield updates that can be averaged, by institution; leave the others out."""
        profile = self.members.profile
        expected = self._method.expected(profile) if profile else {}
        for reply in replies:
            if reply.has_error():
                # Not by name: an error reply need not come from the node that it is about.
                logger.warning("an institution did not answer: %s", error_line(reply.error))
                continue
            # The name it was admitted by, whatever the update says.
            name = self.members.name_of(reply.metadata.src_node_id)
            if name is None:
                logger.warning(
                    "an update of node %d is left out: it was not admitted",
                    reply.metadata.src_node_id,
                )
                continue
            try:
                accepted = self._take_in(name, reply, expected, profile)
            except FedGTError as error:
                self._leave_out(name, str(error))
            except Exception as error:  # whatever it sent: it must not end the run
                logger.debug("update of %s", name, exc_info=True)
                self._leave_out(name, f"it cannot be read ({type(error).__name__})")
            else:
                self._round.left_out.pop(name, None)
                yield name, accepted

    def _take_in(
        self, name: str, reply: Message, expected: Shapes, profile: Profile | None
    ) -> _Accepted:
        """Return the update in a reply, once it is known that it can be averaged."""
        update = Update.from_records(reply.content, expected)
        withheld = _is_withheld(update)
        if update.arrays and UPLOAD_WITHHELD in update.metrics:
            raise FedGTError("it says that its upload is withheld, and holds one")
        if not withheld and (problem := update_error(update, expected)):
            raise FedGTError(problem)
        size = count_bytes(reply.content)
        parameters = profile.parameters if profile else {}
        uploads = upload_sizes(update.sizes, parameters)
        if not withheld:
            changed = [one for one in parameters if not one.startswith(COMMON)]
            self._screening.measure(name, update, changed)
        # Last: from here on, the method has it.
        kept = update if withheld else self._method.receive(name, update)
        return _Accepted(kept, size, uploads)

    def _leave_out(self, name: str, reason: str) -> None:
        """Note why an institution's update has no use, for the journal and for itself."""
        logger.warning("the update of %s is left out: %s", name, reason)
        self._round.left_out[name] = shorten(reason)
        self._notices[name] = f"the update of round {self._round.number} was left out: {reason}"

    def _screen(self, current: _Round) -> list[str]:
        """Shorten or leave out updates that would move others' models too far; return warnings."""
        if not self.config.robust:
            return []
        accepted = current.accepted
        names = [name for name, given in accepted.items() if not _is_withheld(given.update)]
        verdict = self._screening.judge(current.number, names)
        for name, factor in verdict.factors.items():
            accepted[name].update = self._method.shorten(name, accepted[name].update, factor)
        for name, reason in verdict.refused.items():
            self._method.refuse(name)
            del accepted[name]
            self._leave_out(name, reason)
        shortened = [
            f"the update of {name} is shortened to {factor:.2g} of its length"
            for name, factor in verdict.factors.items()
        ]
        return verdict.notices + shortened

    def _aggregate(self, current: _Round) -> RoundEvent:
        """Aggregate a round's updates and return what the journal says of it."""
        screened = self._screen(current)
        answers = {name: given.update for name, given in current.accepted.items()}
        updates = {name: update for name, update in answers.items() if not _is_withheld(update)}
        # With no update at all every model stays as it is.
        report = self._method.aggregate(updates) if updates else RoundReport()
        for given in current.accepted.values():
            given.update = replace(given.update, arrays={})  # they are not needed any more
        warnings = [*screened, *report.warnings, *self._note_parts(current.number, answers)]
        for warning in warnings:
            logger.warning("round %d: %s", current.number, warning)
        institutions = {
            name: self._institution_round(name, given) for name, given in current.accepted.items()
        }
        missing = sorted(current.members - current.accepted.keys())
        # Who was not asked has not been heard of.
        reasons = dict.fromkeys(missing, "it was not connected") | current.left_out
        validation = mean_metric(institutions, "val_accuracy")
        best = self._choice.add(current.number, institutions)
        facts = {
            **report.facts,  # first: a method cannot overwrite what follows
            "round": current.number,
            "val_accuracy": validation,
            "test_accuracy": mean_metric(institutions, "test_accuracy"),
            "best_round": best.number,
            "institutions": institutions,
            "warnings": warnings,
            "missing": missing,
            "left_out": dict(sorted(reasons.items())),
            "seconds": time.monotonic() - current.started,
        }
        return RoundEvent.model_validate(facts)

    def _note_parts(self, number: int, updates: Mapping[str, Update]) -> list[str]:
        """Remember who took part; return warnings of budgets that are smaller than before."""
        warnings = []
        for name, update in sorted(updates.items()):
            epsilon = update.metrics.get(EPSILON)
            before = self.last_parts[name].epsilon if name in self.last_parts else None
            if epsilon is not None and before is not None and epsilon < before:
                warnings.append(
                    f"{name} says that it has spent ε {epsilon:g}, after {before:g}: its own "
                    "account was lost, what it has released counts still"
                )
                epsilon = before
            self.last_parts[name] = LastPart(number, before if epsilon is None else epsilon)
        return warnings

    def _institution_round(self, name: str, given: _Accepted) -> InstitutionRound:
        facts = {
            **given.update.metrics,
            "warnings": given.update.warnings,
            "bytes_up": given.size,
            "uploads": given.uploads,
            "bytes_down": self._bytes_down.get(name, 0),
        }
        return InstitutionRound.model_validate(facts)

    def _checked(self, arrays: ArrayRecord) -> Arrays:
        """Return a starting point that was given as ``initial_arrays``.

        Raises
        ------
        FedGTError
            When it does not fit the model that institutions have.
        """
        initial = {name: np.asarray(array.numpy()) for name, array in arrays.items()}
        profile = self.members.profile
        if problem := update_error(Update("", initial, {}), profile.parameters if profile else {}):
            raise FedGTError(f"the initial arrays do not fit the model: {problem}")
        return initial


def shorten(reason: str) -> str:
    """Return a reason in one line of bounded length."""
    line = " ".join(reason[: 2 * _REASON].split())
    return line if len(line) <= _REASON else line[: _REASON - 1] + "…"


def _is_withheld(update: Update) -> bool:
    """Tell whether an institution answers without arrays because its privacy budget is spent."""
    return not update.arrays and update.metrics.get(UPLOAD_WITHHELD) == 1.0


def upload_sizes(sizes: Mapping[str, int], parameters: Container[str]) -> dict[str, int]:
    """Return bytes of an update's arrays: the model's and gradients together, others by name."""
    shown: Counter[str] = Counter()
    for name, size in sizes.items():
        group = COMMON_GRADIENTS if name.startswith(COMMON) else WEIGHTS
        shown[group if name in parameters else name] += size
    return dict(shown)
