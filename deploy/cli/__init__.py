"""The ``fedgt`` command."""

import sys
from typing import NoReturn

import typer
from click.exceptions import Abort, ClickException, NoArgsIsHelpError

from deploy.cli import config, coordinator, data, data_import, demo, doctor, provision, run
from experiments import cli as experiment
from shared.errors import FedGTError

app = typer.Typer(
    name="fedgt",
    help="Federated node classification with scalable graph transformers, on Flower.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data.app.add_typer(data_import.app)
app.add_typer(data.app, name="data")
app.command()(demo.demo)
app.command()(run.run)
app.command()(config.config)
app.add_typer(experiment.app, name="experiment")
app.add_typer(provision.app, name="provision")
app.command()(doctor.doctor)
app.command()(coordinator.launch)
app.command()(coordinator.resume)


def main() -> None:
    """Run the command line; a fault the user can mend is one line and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except NoArgsIsHelpError as help_text:
        help_text.show()
        sys.exit(2)
    except ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except FedGTError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}")
    except (KeyboardInterrupt, Abort):
        sys.exit(130)


def _fail(message: str, code: int = 2) -> NoReturn:
    print(f"fedgt: {message}", file=sys.stderr)
    sys.exit(code)
