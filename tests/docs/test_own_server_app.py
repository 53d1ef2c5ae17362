"""The page on a ServerApp of one's own: its code runs as it stands, and learns."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from deploy.engines.in_process_grid import InProcessGrid
from shared.config import Scalar
from shared.errors import FedGTError
from shared.files import Array
from shared.version import installed_version

PAGE = Path(__file__).parents[2] / "docs" / "own-server-app.md"
NAMES = ("alba", "bree", "cork")
EXAMPLES = {"alba": 60, "bree": 90, "cork": 150}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def executed(code: str) -> dict[str, object]:
    """Return the names that a code block of the page defines."""
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


def settings(**changed: Scalar) -> dict[str, Scalar]:
    """Return the settings of the page."""
    document = tomllib.loads(blocks("toml")[0])
    values = dict(document["tool"]["flwr"]["app"]["config"])
    return values | {key.replace("_", "-"): value for key, value in changed.items()}


def start(place: Path, server: str, client: str, **changed: Scalar) -> dict[str, object]:
    """Run two code blocks as ServerApp and ClientApp; return the names of the second.

    alba and bree have the same rule by which labels follow from features, cork the opposite one.
    """
    rng = np.random.default_rng(0)
    for name in NAMES:
        features = rng.standard_normal((EXAMPLES[name], 2)).astype(np.float32)
        labels = (features[:, 0] < features[:, 1]) ^ (name == "cork")
        (place / name).mkdir(parents=True)
        np.savez(place / name / "data.npz", features=features, labels=labels.astype(np.int64))
    config, names = settings(**changed), executed(client)
    grid = InProcessGrid(
        cast(ClientApp, names["app"]),
        [{"name": name, "folder": str(place / name)} for name in NAMES],
        config,
    )
    cast(ServerApp, executed(server)["app"])(grid, Context(1, 0, {}, RecordDict(), config))
    return names


def model(place: Path, name: str, round_number: int) -> list[Array]:
    """Return what an institution had after its training in a round."""
    with np.load(place / name / f"round-{round_number}.npz") as arrays:
        return [arrays[key] for key in ("weight", "bias")]


def distance(place: Path, one: str, other: str, round_number: int) -> float:
    vectors = [
        np.concatenate([array.reshape(-1) for array in model(place, name, round_number)])
        for name in (one, other)
    ]
    return float(np.linalg.norm(vectors[0] - vectors[1]))


def test_the_page_has_the_blocks_that_are_run() -> None:
    assert len(blocks("python")) == 2
    assert len(blocks("toml")) == 1
    server, client = blocks("python")
    assert len(server.splitlines()) <= 32
    # The institution's side knows the documented records alone.
    assert not re.search(r"import (fedgt|shared|deploy)|from (fedgt|shared|deploy)", client)
    assert f'FEDGT_VERSION = "{installed_version()}"' in client


def test_with_fedgt_like_institutions_get_nearer_to_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(tmp_path, *blocks("python"))
    assert len(re.findall(r"round \d: \{'val_accuracy'", capsys.readouterr().out)) == 5
    for like, unlike in (("alba", "cork"), ("bree", "cork")):
        assert distance(tmp_path, like, unlike, 5) > 10 * distance(tmp_path, "alba", "bree", 5)
    for name in NAMES:
        # The best round's model was kept at the end.
        best = (tmp_path / name / "model.npz").read_bytes()
        rounds = [(tmp_path / name / f"round-{n}.npz").read_bytes() for n in range(1, 6)]
        assert best in rounds
        with (
            np.load(tmp_path / name / "data.npz") as data,
            np.load(tmp_path / name / "model.npz") as kept,
        ):
            found = (data["features"] @ kept["weight"] + kept["bias"]).argmax(axis=1)
            assert (found == data["labels"]).mean() > 0.95


def test_with_fedavg_every_round_starts_from_the_example_weighted_average(tmp_path: Path) -> None:
    names = start(tmp_path, *blocks("python"), method="fedavg", rounds=3)
    client = cast("Callable[[Path], NumPyClient]", names["LogisticRegression"])
    total = sum(EXAMPLES.values())
    for number in (1, 2):
        average = [
            np.asarray(
                sum(EXAMPLES[name] / total * model(tmp_path, name, number)[i] for name in NAMES),
                np.float32,
            )
            for i in range(2)
        ]
        for name in NAMES:
            trained, _, _ = client(tmp_path / name).fit(average, {})
            for mine, expected in zip(model(tmp_path, name, number + 1), trained, strict=True):
                np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-5)


def test_an_institution_with_other_classes_ends_the_run(tmp_path: Path) -> None:
    server, client = blocks("python")
    odd = ":: 1 + context.node_id % 2"
    changed = client.replace('"classes": CLASSES', f'"classes": CLASSES[{odd}]')
    assert changed != client
    with pytest.raises(FedGTError, match=r"(bree|alba) has other classes than"):
        start(tmp_path, server, changed, start_institutions=3)
