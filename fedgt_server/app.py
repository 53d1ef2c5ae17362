"""The coordinator's Flower app."""

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedgt_server.best_round import missing_text
from fedgt_server.parent import end_with_parent
from fedgt_server.queue import coordinator_folder, turn
from fedgt_server.round_loop import RoundLoop, accuracy_text, worth_text
from fedgt_server.strategy import FedGTStrategy
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.flower import is_simulated, limit_pulling

logger = logging.getLogger(__name__)

app = ServerApp()

# Flower's last words, of several lines: the reason was said just before.
_FAILED = "Exit Code: 201"


def show_log() -> None:
    """Print the coordinator's log lines, once.

    Not with a handler of the root logger: Flower's lines, which have a handler, reach it too.
    """
    ours = logging.getLogger("fedgt_server")
    ours.setLevel(logging.INFO)
    ours.propagate = False
    if not ours.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        ours.addHandler(handler)
        logging.getLogger("flwr").addFilter(OneLine())


class OneLine(logging.Filter):
    """Says errors that a user can correct in one line, in Flower's log as well."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Take the traceback out of such a record, and what Flower says after it of no use."""
        if str(record.msg).startswith(_FAILED):
            return False
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, FedGTError):
            record.msg, record.args, record.exc_info = f"the run failed: {error}", (), None
        return True


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation that the run configuration describes."""
    show_log()
    if not is_simulated(grid):  # in a simulation, Ray's processes end first
        end_with_parent()
    config = RunConfig.build(context.run_config)
    name = config.run_name or str(context.run_id)
    folder = Path(config.results_dir).absolute() / name
    if is_simulated(grid):
        result = RoundLoop(grid, FedGTStrategy(config), folder).run()
    else:
        limit_pulling(config.round_deadline)
        with turn(coordinator_folder(), folder):
            result = RoundLoop(grid, FedGTStrategy(config), folder).run()
    logger.info(
        "test accuracy %s%s at round %d%s; results in %s",
        accuracy_text(result.test_accuracy),
        worth_text(result.test_majority_share, result.test_balanced_accuracy),
        result.best_round,
        missing_text(result.missing),
        folder,
    )
