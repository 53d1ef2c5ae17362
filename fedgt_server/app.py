"""The coordinator's Flower app."""

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedgt_server.methods import server_method
from fedgt_server.round import Federation
from fedgt_server.strategy import FedGTStrategy
from shared.config import RunConfig

logger = logging.getLogger(__name__)

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation that the run configuration describes."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = RunConfig.build(context.run_config)
    folder = Path(config.results_dir).absolute() / (config.run_name or str(context.run_id))
    strategy = FedGTStrategy(config, server_method(config))
    result = Federation(grid, strategy, folder).run()
    logger.info(
        "test accuracy %.4f at round %d; results in %s",
        result["test_accuracy"],
        result["best_round"],
        folder,
    )
