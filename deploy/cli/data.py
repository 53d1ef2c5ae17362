"""``fedgt data``: datasets, partitions, an institution's own tables."""

import typer

app = typer.Typer(help="Datasets, partitions, and an institution's own data.", no_args_is_help=True)
