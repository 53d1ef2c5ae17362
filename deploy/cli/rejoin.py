"""``fedgt rejoin``: go on in a run whose state this institution has lost."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.output import print_note
from deploy.doctor.kit import InstitutionKit
from fedgt_client.run_folder import allow_rejoin
from fedgt_client.state import check_folder_name


def rejoin(
    kit: Annotated[Path, typer.Argument(help="The institution's kit.")],
    run: Annotated[str, typer.Option(help="The name of the run.")],
) -> None:
    """Rejoin a run whose state is lost here.

    The model goes on from what the coordinator sends, the optimiser begins
    anew, and earlier uploads are missing in this institution's own account of
    its privacy budget. It counts once, from the next message on.
    """
    check_folder_name(run)
    opened = InstitutionKit.open(kit)
    allow_rejoin(opened.state_dir, opened.federation, run)
    print_note(f"{opened.institution} goes on in run {run} without its earlier state")
