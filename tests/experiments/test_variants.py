"""Variants: names that are unknown, then that each is a run that can be configured."""

import pytest

from deploy.settings import resolve_settings
from experiments.variants import METHODS, VARIANTS, variant
from fedgt_server.methods import METHODS as SERVER_METHODS
from shared.errors import FedGTError

KNOWN = tuple(SERVER_METHODS)


def test_unknown() -> None:
    with pytest.raises(FedGTError, match="variant is 'fedgtt', expected one of local, gcn"):
        variant("fedgtt")


def test_every_method_is_a_variant() -> None:
    assert set(METHODS) <= VARIANTS.keys()
    assert set(KNOWN) <= {chosen.method for chosen in VARIANTS.values()}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("setting", ["disjoint", "overlap"])
def test_can_be_configured(name: str, setting: str) -> None:
    chosen = variant(name)
    config = resolve_settings(chosen.settings_of("cora", setting, 2), preset=chosen.preset)
    assert config.method == chosen.method
    # Repeatable: no noise from the system's entropy.
    assert config.method == "local" or config.ldp == "off" or config.ldp_noise_seed == 2


def test_labels_tell_variants_apart() -> None:
    assert len({chosen.label for chosen in VARIANTS.values()}) == len(VARIANTS)


def test_ablations_differ_from_fedgt_in_what_they_say() -> None:
    own = resolve_settings(variant("fedgt").settings_of("cora", "disjoint", 0)).to_flower()
    for name, changed in {
        "fedgt-no-global": {"global-attention": False},
        "fedgt-mean": {"aggregation": "mean", "robust": False},
        "fedgt-no-ot": {"similarity": "none"},
        "fedgt-no-own": {"own-model": False},
        "fedgt-no-common": {"common-model": "off"},
        "fedgt-transformer": {"own-model": False, "common-model": "off"},
        "fedgt-no-updates": {"compare-updates": False},
        "fedgt-update": {"similarity": "update"},
        "fedgt-label": {"similarity": "label"},
        "fedgt-noldp": {"ldp": "off"},
    }.items():
        found = resolve_settings(variant(name).settings_of("cora", "disjoint", 0)).to_flower()
        assert {key: found[key] for key in found if found[key] != own[key]} == changed


def test_fedpub_takes_its_authors_tau_for_overlapping_clients() -> None:
    taus = [
        resolve_settings(variant("fedpub").settings_of("cora", setting, 0)).tau
        for setting in ("disjoint", "louvain", "overlap")
    ]
    assert taus == [3.0, 3.0, 5.0]


@pytest.mark.parametrize("name", VARIANTS)
def test_all_train_as_many_epochs(name: str) -> None:
    epochs = [
        resolve_settings(variant(name).settings_of(dataset, "disjoint", 0)).local_epochs
        for dataset in ("cora", "pubmed", "amazon-photo", "amazon-computers")
    ]
    assert epochs == [1, 1, 2, 2]
