"""The ``fedgt`` command."""

import sys
from typing import NoReturn

from click.exceptions import Abort, ClickException, NoArgsIsHelpError

from deploy.cli.commands import command_group
from shared.errors import FedGTError

_OWN = ("deploy", "fedgt", "fedgt_client", "fedgt_server", "shared")


def main() -> None:
    """Run the command line; an error that the user can correct is one line and exit code 2."""
    try:
        sys.exit(command_group().main(standalone_mode=False) or 0)
    except NoArgsIsHelpError as help_text:
        help_text.show()
        sys.exit(2)
    except ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except FedGTError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] in _OWN:
            raise
        _fail(
            f"this needs {error.name}, which is not installed here: a coordinator's kit has what "
            "coordinators need, an institution's has all"
        )
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
