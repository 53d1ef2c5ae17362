"""FedAvg, and the GCN trained locally."""

import numpy as np

from shared.wire import NUM_EXAMPLES
from tests.fedgt_client.graphs import two_groups
from tests.fedgt_client.methods.baselines import institution


def test_the_upload_is_the_change_and_the_number_of_examples() -> None:
    method = institution("fedavg")
    rng = np.random.default_rng(0)
    sent = {
        name: rng.standard_normal(array.shape).astype(np.float32)
        for name, array in method.initial_arrays().items()
    }
    result = method.fit(sent, 1)
    after = method.state_dict()
    for name, start in sent.items():
        assert result.upload[name].tolist() == (after[f"model.{name}"] - start).tolist()
    assert result.upload.keys() == sent.keys()
    assert result.metrics[NUM_EXAMPLES] == two_groups().train.sum()


def test_moments_are_kept_across_rounds() -> None:
    method = institution("fedavg", batch_size=7)
    start = method.initial_arrays()
    for number in (1, 2):
        method.fit(start, number)
    assert int(method.state_dict()["adam.step.layers.0.neighbours"]) == 2 * 2  # 14 nodes by 7


def test_local_training_exchanges_nothing() -> None:
    method = institution("gcn")
    foreign = {name: np.full_like(a, 7.0) for name, a in method.initial_arrays().items()}
    result = method.fit(foreign, 1)
    assert result.upload == {}
    assert NUM_EXAMPLES not in result.metrics
    assert np.abs(method.initial_arrays()["layers.1.lin.weight"]).max() < 2.0
