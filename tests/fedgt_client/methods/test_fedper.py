"""FedPer: the head stays home."""

import numpy as np

from tests.fedgt_client.methods.baselines import institution


def test_the_head_is_never_uploaded_and_never_replaced() -> None:
    method = institution("fedper")
    sent = method.initial_arrays()
    assert all(name.startswith("layers.0.") for name in sent)
    before = {n: a.copy() for n, a in method.durable().items() if n.startswith("model.layers.1.")}
    assert len(before) == 3
    result = method.fit(sent, 1)
    assert result.upload.keys() == sent.keys()
    after = method.durable()
    assert any(np.abs(after[name] - array).max() > 1e-3 for name, array in before.items())
    method.fit(sent, 2)  # the base starts again, the head goes on
    assert int(method.durable()["adam.step.layers.1.neighbours"]) == 2
