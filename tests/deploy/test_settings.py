"""Settings of a run where it is started: unknown names first, then the methods' defaults."""

import pytest

from deploy.settings import resolve_settings
from fedgt_client.methods import METHODS as CLIENT_METHODS
from fedgt_client.methods import ClientMethod, client_method
from fedgt_client.preprocess.samplers import SAMPLERS
from fedgt_server.methods import METHODS, server_method
from shared.config import PRESETS, PRIVATE_STEPS, RunConfig, Scalar
from shared.errors import FedGTError
from shared.registry import import_object
from tests.fedgt_client.graphs import two_groups

WITHOUT_NOISE = [name for name, info in METHODS.items() if not info.private_updates]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "fedfoo"}, f"method is 'fedfoo', expected one of {', '.join(METHODS)}$"),
        ({"sampler": "walk"}, f"sampler is 'walk', expected one of {', '.join(SAMPLERS)}$"),
        ({"tua": 1.0}, "there is no setting 'tua'"),
    ],
)
def test_unknown_names(values: dict[str, Scalar], message: str) -> None:
    with pytest.raises(FedGTError, match=message):
        resolve_settings(values)


def test_unknown_method_on_either_side() -> None:
    """Settings from elsewhere are checked again by the side that receives them."""
    config = RunConfig.build({"method": "fedfoo"})
    message = "method is 'fedfoo', expected one of "
    with pytest.raises(FedGTError, match=message + ", ".join(METHODS)):
        server_method(config)
    with pytest.raises(FedGTError, match=message + ", ".join(CLIENT_METHODS)):
        client_method(two_groups(), config, "alba")


@pytest.mark.parametrize("method", WITHOUT_NOISE)
def test_noise_on_all_updates_is_rejected_for_methods_without_it(method: str) -> None:
    message = f"method {method} uploads its updates without noise"
    with pytest.raises(FedGTError, match=message):
        resolve_settings({"method": method, "ldp": "all"})
    config = RunConfig.build({"method": method, "ldp": "all"})
    with pytest.raises(FedGTError, match=message):
        server_method(config)
    with pytest.raises(FedGTError, match=message):
        client_method(two_groups(), config, "alba")


def test_defaults_of_a_method_are_below_preset_and_values() -> None:
    assert resolve_settings({"method": "fedavg"}).lr == METHODS["fedavg"].defaults["lr"]
    assert resolve_settings({"method": "fedavg"}, preset="paper").lr == PRESETS["paper"]["lr"]
    assert resolve_settings({"method": "fedavg", "lr": 0.5}).lr == 0.5
    assert resolve_settings({"method": "local"}).lr == resolve_settings().lr


def test_noise_on_gradients_brings_its_own_steps() -> None:
    private: dict[str, Scalar] = {"label-privacy": "dp-sgd"}
    for method in ("fedgt", "fedavg"):
        found = resolve_settings({"method": method, **private}).to_flower()
        assert {key: found[key] for key in PRIVATE_STEPS} == PRIVATE_STEPS
    assert resolve_settings({**private, "rounds": 20}).rounds == 20
    whole: dict[str, Scalar] = {**private, "batch-size": 0}
    assert resolve_settings(whole, preset="paper").lr == PRESETS["paper"]["lr"]
    other = resolve_settings({"label-privacy": "randomised-response"})
    assert (other.rounds, other.lr) == (resolve_settings().rounds, resolve_settings().lr)
    assert all(resolve_settings().to_flower()[key] != value for key, value in PRIVATE_STEPS.items())


@pytest.mark.parametrize("name", METHODS)
def test_resolved_settings_need_no_defaults(name: str) -> None:
    """The side that receives them gets the same without knowing the method's defaults."""
    config = resolve_settings({"method": name})
    assert RunConfig.build(config.to_flower()) == config
    assert isinstance(server_method(config), METHODS[name].server)


def test_both_sides_have_every_method_and_agree_on_privacy() -> None:
    assert METHODS.keys() == CLIENT_METHODS.keys()
    for name, info in METHODS.items():
        client: type[ClientMethod] = import_object(CLIENT_METHODS[name])
        assert client.private_updates == info.private_updates, name
        assert info.title
        assert info.description


def test_defaults_of_methods_say_only_what_differs() -> None:
    defaults = resolve_settings().to_flower()
    for info in METHODS.values():
        assert all(defaults[key] != value for key, value in info.defaults.items())
