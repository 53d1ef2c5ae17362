"""``fedgt policy``: does an institution allow a run?"""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.output import Json, print_json
from deploy.engines.superlink_run import read_settings
from deploy.node_file import NODE_FILE, read_toml
from deploy.policy_text import policy_text
from fedgt_client.node import parse_policy
from fedgt_client.policy import Policy
from fedgt_server.methods import method_info
from shared.errors import FedGTError

app = typer.Typer(
    no_args_is_help=True,
    help="Show what an institution allows a run.",
    add_completion=False,
)


@app.command()
def check(
    settings: Annotated[Path, typer.Argument(help="Settings of a run, such as run.toml.")],
    institutions: Annotated[
        list[Path] | None,
        typer.Argument(help="Kits, or files with [policy]; by default, the defaults of a policy."),
    ] = None,
    json: Json = False,
) -> None:
    """Tell before a run whether institutions allow it: a line for each, with all that they refuse.

    Works on both sides: institutions may pass their [policy] on. The exit code
    is 1 if any refuses. What depends on the data, the size of the model, is
    checked when the run starts.
    """
    config = read_settings(settings)
    uploads = method_info(config.method).uploads
    policies = {str(place): _read_policy(place) for place in institutions or ()}
    found = {
        name: policy.problems(config, uploads)
        for name, policy in (policies or {"the default policy": Policy()}).items()
    }
    if json:
        print_json({name: [one._asdict() for one in problems] for name, problems in found.items()})
    else:
        for name, problems in found.items():
            print(f"{name} {_verdict(list(map(str, problems)))}")
    raise typer.Exit(1 if any(found.values()) else 0)


@app.command()
def show() -> None:
    """Print the default policy with the meaning of every key, to be pasted into node.toml."""
    print(policy_text(), end="")


def _verdict(problems: list[str]) -> str:
    return f"refuses the run: {'; '.join(problems)}" if problems else "allows the run"


def _read_policy(place: Path) -> Policy:
    source = place / NODE_FILE if place.is_dir() else place
    values = read_toml(source)
    keys = {str(field.alias) for field in Policy.model_fields.values()}
    if stray := sorted(keys & values.keys()):
        # Else the defaults would be checked, in the belief that they are these.
        raise FedGTError(f"{source}: '{stray[0]}' belongs below [policy]")
    try:
        return parse_policy(values.get("policy", {}))
    except FedGTError as error:
        raise FedGTError(f"{source}: {error}") from None
