"""What notebooks and other programs import: results of runs, trained models."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from fedgt_client.predict.model import Model

__all__ = ["load_model", "load_run"]


def load_run(*folders: Path | str) -> "pa.Table":
    """Return the numbers of runs as one tidy table, as ``fedgt results`` writes it.

    Columns: run, method, institution (null: of the federation), round, metric, value. The folder
    of a comparison stands for its runs. ``load_run(…).to_pandas()`` gives a pandas data frame,
    ``polars.from_arrow(load_run(…))`` one of polars.
    """
    from deploy.results_table import results_table

    return results_table([Path(folder) for folder in folders])


def load_model(folder: Path | str, *, run: str = "", institution: str = "") -> "Model":
    """Return the best model in a kit, in the folder of a run, or in an exported folder.

    Parameters
    ----------
    run : of several runs in a kit; by default the one with the newest model
    institution : of several in the folder of a run
    """
    from fedgt_client.predict.source import load_model

    return load_model(folder, run=run, institution=institution)
