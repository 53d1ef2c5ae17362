"""The ``fedgt`` command."""

import sys

import typer

from deploy.cli import data, run, tables
from shared.errors import FedGTError

app = typer.Typer(
    name="fedgt",
    help="Federated node classification with scalable graph transformers, on Flower.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data.app.add_typer(tables.app)
app.add_typer(data.app, name="data")

app.command()(run.run)


def main() -> None:
    """Run the command line; a fault the user can mend is one line and exit code 2."""
    try:
        app()
    except FedGTError as error:
        print(f"fedgt: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"fedgt: {place}{error.strerror or error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
