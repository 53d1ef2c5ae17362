"""RunConfig: wrong input first, then that Flower's table of defaults is the same."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from shared.config import PRESETS, RunConfig, Scalar
from shared.errors import FedGTError
from shared.version import VERSION

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tua": 1.0}, "there is no setting 'tua': did you mean 'tau'"),
        ({"rounds": "many"}, "rounds is 'many': input should be a valid integer"),
        ({"rounds": "1.5"}, "rounds is '1.5'"),
        ({"rounds": 0}, "rounds is 0: input should be greater than or equal to 1"),
        ({"seed": -1}, "seed is -1"),
        ({"lr": 0}, "lr is 0: input should be greater than 0"),
        ({"lr": "nan"}, "lr is 'nan'"),
        ({"tau": "inf"}, "tau is 'inf'"),
        ({"dropout": 1.0}, "dropout is 1.0: input should be less than 1"),
        ({"momentum": 1.1}, "momentum is 1.1"),
        ({"ppr-bias": "perhaps"}, "ppr-bias is 'perhaps': input should be a valid boolean"),
        ({"setting": "metis"}, "setting is 'metis'"),
        ({"ldp-noise": 0.0}, "ldp-noise is 0.0"),
        ({"ldp-noise-seed": -2}, "ldp-noise-seed is -2"),
        ({"min-institutions": 0}, "min-institutions is 0"),
        ({"dataset": 3}, "dataset is 3: input should be a valid string"),
        ({"federation": ""}, "federation is ''"),
        ({"federation": "../other"}, "federation is '../other': use letters"),
        ({"run-name": ".."}, "run-name is '..': use letters"),
        ({"run-name": "two words"}, "run-name is 'two words': use letters"),
        ({"heads": 3}, "heads is 3, which does not divide hidden 64"),
        ({"global-nodes": 0}, "similarity 'hungarian' compares global nodes"),
        ({"resume": True, "checkpoints": False}, "resume is on, but checkpoints is off"),
        ({"rounds": "many\nlines"}, r"rounds is 'many\\nlines'"),
    ],
)
def test_an_error_is_one_line_that_names_the_setting(
    values: dict[str, Scalar], message: str
) -> None:
    with pytest.raises(FedGTError) as error:
        RunConfig.build(values)
    assert re.match(message, str(error.value))
    assert len(str(error.value).splitlines()) == 1


def test_unknown_preset() -> None:
    with pytest.raises(FedGTError, match="preset is 'papre', expected one of default, paper"):
        RunConfig.build(preset="papre")


def test_no_global_nodes_where_nothing_compares_them() -> None:
    assert RunConfig.build({"global-nodes": 0, "similarity": "update"}).global_nodes == 0
    assert RunConfig.build({"global-nodes": 0, "aggregation": "mean"}).global_nodes == 0
    assert RunConfig.build({"global-nodes": 0, "method": "local"}).global_nodes == 0


def test_strings_become_what_the_setting_is() -> None:
    config = RunConfig.build({"rounds": "7", "tau": "2", "ppr-bias": "false", "dataset": "cora"})
    assert (config.rounds, config.tau, config.ppr_bias, config.dataset) == (7, 2.0, False, "cora")
    assert isinstance(config.tau, float)


def test_presets_say_only_what_differs() -> None:
    defaults = RunConfig.build().to_flower()
    for values in PRESETS.values():
        assert all(defaults[key] != value for key, value in values.items())
    paper = RunConfig.build(preset="paper")
    assert not paper.centre_fingerprints


def test_what_is_set_counts_more_than_the_preset() -> None:
    assert RunConfig.build({"lr": 0.5}, preset="paper").lr == 0.5


def test_there_and_back_through_flower() -> None:
    config = RunConfig.build({"seed": 3, "run-name": "a.b-c_1"}, preset="paper")
    assert RunConfig.build(config.to_flower()) == config


def test_every_setting_says_what_it_means() -> None:
    assert all(field.description for field in RunConfig.model_fields.values())


def test_flower_has_the_same_defaults(pyproject: dict[str, Any]) -> None:
    table, defaults = pyproject["tool"]["flwr"]["app"]["config"], RunConfig.build().to_flower()
    assert table == defaults, (
        "defaults differ: copy what 'fedgt config' prints into [tool.flwr.app.config] "
        "of pyproject.toml"
    )
    # 1 == 1.0, but a reader takes the type from the table.
    assert {k: type(v) for k, v in table.items()} == {k: type(v) for k, v in defaults.items()}


def test_one_version(pyproject: dict[str, Any]) -> None:
    assert pyproject["project"]["version"] == VERSION, "shared/version.py and pyproject.toml differ"


def test_defaults_of_a_method_are_below_preset_and_values() -> None:
    defaults = {"lr": 0.25}
    assert RunConfig.build(method_defaults=defaults).lr == 0.25
    assert RunConfig.build(preset="paper", method_defaults=defaults).lr == PRESETS["paper"]["lr"]
    assert RunConfig.build({"lr": 0.5}, method_defaults=defaults).lr == 0.5


def test_noise_on_all_updates_needs_a_method_that_adds_it() -> None:
    config = RunConfig.build({"ldp": "all"})
    config.check_privacy(private_updates=True)
    with pytest.raises(FedGTError, match="method fedgt uploads its updates without noise"):
        config.check_privacy(private_updates=False)
    RunConfig.build({"ldp": "off"}).check_privacy(private_updates=False)
