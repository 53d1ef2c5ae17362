"""The coordinator's Flower app."""

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedgt_server.parent import end_with_parent
from fedgt_server.round_loop import RoundLoop, accuracy_text
from fedgt_server.strategy import FedGTStrategy
from shared.config import RunConfig
from shared.flower import is_simulated

logger = logging.getLogger(__name__)

app = ServerApp()


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


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation that the run configuration describes."""
    show_log()
    if not is_simulated(grid):  # in a simulation, Ray's processes end first
        end_with_parent()
    config = RunConfig.build(context.run_config)
    folder = Path(config.results_dir).absolute() / (config.run_name or str(context.run_id))
    result = RoundLoop(grid, FedGTStrategy(config), folder).run()
    logger.info(
        "test accuracy %s at round %d; results in %s",
        accuracy_text(result.test_accuracy),
        result.best_round,
        folder,
    )
