"""``fedgt provision``: start-up kits for the coordinator and every institution."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deploy.approval.approved_code import hash_of
from deploy.cli.output import Json, console, print_json, print_table, status_console
from deploy.engines.app_bundle import stage_flower_app
from deploy.node_file import NODE_FILE
from deploy.node_file import approve as approve_code
from deploy.provision.kits import provision
from deploy.provision.node_key import make_node_key
from deploy.provision.registered_keys import revoke as revoke_institution
from deploy.provision.registration import register as register_keys

_DEFAULT = "make"


class _MakeUnlessNamed(TyperGroup):
    """``provision FILE`` is ``provision make FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] != "--help" and args[0] not in self.commands:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_MakeUnlessNamed,
    help="Make keys, certificates and scripts.",
    no_args_is_help=True,
    add_completion=False,
)

Out = Annotated[Path, typer.Option(help="The folder of all kits.")]


@app.command(_DEFAULT)
def make(
    federation: Annotated[Path, typer.Argument(help="Names coordinator and institutions (TOML).")],
    out: Out = Path("kits"),
    renew: Annotated[
        bool, typer.Option("--renew", help="Make a new server certificate, with the same key.")
    ] = False,
    readmit: Annotated[
        list[str] | None, typer.Option(help="Let this revoked institution in, with a new key.")
    ] = None,
    json: Json = False,
) -> None:
    """Make kits, or add to them what the file newly names; existing keys stay untouched.

    kits/coordinator and one folder for each institution go to their machines.
    kits/private holds the key of the certificate authority: it stays here, safe.
    """
    made = provision(federation, out, renew=renew, readmit=tuple(readmit or ()))
    if json:
        print_json(
            {
                "out": str(out),
                "institutions": [
                    asdict(kit) | {"folder": str(kit.folder)} for kit in made.institutions
                ],
                "written": [str(path) for path in made.written],
                "certificate_ends": made.certificate_ends,
                "notes": made.notes,
            }
        )
        return
    rows = [[kit.name, kit.key, kit.fingerprint or "–"] for kit in made.institutions]
    print_table(f"Kits in {out}", ["institution", "key", "fingerprint"], rows)
    _print_line(
        f"{len(made.written)} files written; server certificate until {made.certificate_ends}"
    )
    for note in made.notes:
        _print_note(note)
    if any(path.suffix == ".key" for path in made.written):
        _print_note(f"send each folder to its machine by a safe way; {out / 'private'} stays here")


@app.command()
def revoke(
    institution: Annotated[str, typer.Argument(help="Its name.")],
    out: Out = Path("kits"),
    json: Json = False,
) -> None:
    """Take an institution out: its key is refused once the coordinator runs register.sh."""
    mark, aside = revoke_institution(institution, out)
    if json:
        folder = None if aside is None else str(aside)
        print_json({"institution": institution, "fingerprint": mark, "kit": folder})
        return
    _print_line(f"{institution} is revoked ({mark})")
    if aside:
        _print_note(f"its kit was put aside, in {aside}")
    _print_note(
        "copy the coordinator's kit over, and run ./register.sh there: until then it gets in"
    )


@app.command()
def key(
    folder: Annotated[Path, typer.Argument(help="The institution's kit, or any folder.")] = Path(),
    name: Annotated[str, typer.Option(help="A comment in the public half.")] = "",
    json: Json = False,
) -> None:
    """Make an institution's key pair where it is used: node.key stays, node.pub is sent."""
    mark, is_new = make_node_key(folder, name or folder.resolve().name)
    if json:
        public = str(folder / "node.pub")
        print_json({"fingerprint": mark, "new": is_new, "public_key": public})
        return
    _print_line(f"{folder / 'node.key'} is {'new' if is_new else 'kept as it was'}")
    _print_line(f"send {folder / 'node.pub'} to the coordinator, and compare {mark}")


@app.command()
def register(
    kit: Annotated[Path, typer.Argument(help="The coordinator's kit.")] = Path(),
    json: Json = False,
) -> None:
    """Register the kit's keys at the running SuperLink, and take the revoked ones out."""
    done = asdict(register_keys(kit, _say_waiting))
    if json:
        print_json(done)
        return
    labels = {"added": "registered", "kept": "known", "removed": "taken out"}
    rows = [
        [name, labels[how], mark] for how, marks in done.items() for name, mark in marks.items()
    ]
    print_table("Keys at the SuperLink", ["institution", "", "fingerprint"], rows)


def _say_waiting(seconds: float) -> None:
    _print_note(f"waiting for the SuperLink, {seconds:.0f} s at most")


@app.command()
def approve(
    kit: Annotated[Path, typer.Argument(help="The institution's kit.")],
    code: Annotated[
        str, typer.Argument(help="A bundle (.fab), the folder of a Flower app, or a hash.")
    ],
    json: Json = False,
) -> None:
    """Let other code than the installed FedGT run at this institution, by its content hash."""
    found = hash_of(code)
    is_new = approve_code(kit / NODE_FILE, found)
    if json:
        print_json({"hash": found, "new": is_new})
        return
    _print_line(f"{found} is {'approved' if is_new else 'approved already'} in {kit / NODE_FILE}")
    _print_note("it counts from the next start of start-supernode.sh")


@app.command("app")
def app_command(
    folder: Annotated[Path, typer.Argument(help="A folder to make, such as /tmp/x/fedgt.")],
) -> None:
    """Write the Flower app that 'flwr run' takes, from the installed FedGT."""
    stage_flower_app(folder)


def _print_line(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _print_note(text: str) -> None:
    status_console.print(text, markup=False, highlight=False, soft_wrap=True)
