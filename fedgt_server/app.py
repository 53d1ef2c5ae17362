"""The coordinator's Flower app."""

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.superlink.grid import InMemoryGrid

from fedgt_server.methods import server_method
from fedgt_server.parent import end_with_parent
from fedgt_server.round_loop import RoundLoop
from fedgt_server.strategy import FedGTStrategy
from shared.config import RunConfig

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
    if not isinstance(grid, InMemoryGrid):  # in a simulation, Ray's processes end first
        end_with_parent()
    config = RunConfig.build(context.run_config)
    folder = Path(config.results_dir).absolute() / (config.run_name or str(context.run_id))
    strategy = FedGTStrategy(config, server_method(config))
    result = RoundLoop(grid, strategy, folder).run()
    accuracy = result["test_accuracy"]
    logger.info(
        "test accuracy %s at round %d; results in %s",
        "not measured" if accuracy is None else f"{accuracy:.4f}",
        result["best_round"],
        folder,
    )
