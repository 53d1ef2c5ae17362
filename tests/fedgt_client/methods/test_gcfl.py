"""GCFL+: FedAvg and one number more."""

import pytest

from shared.wire import GRADIENT_NORM
from tests.fedgt_client.methods.baselines import assert_same, institution


def test_is_fedavg_with_the_length_of_the_gradient() -> None:
    gcfl, fedavg = institution("gcfl"), institution("fedavg")
    found, expected = (method.fit(method.initial_arrays(), 1) for method in (gcfl, fedavg))
    assert_same(found.upload, expected.upload)
    norm = found.metrics[GRADIENT_NORM]
    assert norm > 0
    # After one step Adam's first moment is a tenth of the gradient (of loss and weight decay).
    plain = institution("gcfl", weight_decay=0.0)
    norm = plain.fit(plain.initial_arrays(), 1).metrics[GRADIENT_NORM]
    moments = [v for k, v in plain.state_dict().items() if k.startswith("adam.exp_avg.")]
    assert norm == pytest.approx(10 * sum(float((m**2).sum()) for m in moments) ** 0.5, rel=1e-4)
