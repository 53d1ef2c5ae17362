"""FedPer: the head stays home."""

import numpy as np

from deploy.settings import resolve_settings
from tests.fedgt_client.methods.baselines import institution


def test_the_head_is_never_uploaded_and_never_replaced() -> None:
    method = institution("fedper")
    sent = method.initial_arrays()
    assert all(name.startswith("layers.0.") for name in sent)
    before = {
        n: a.copy() for n, a in method.state_dict().items() if n.startswith("model.layers.1.")
    }
    assert len(before) == 3
    results = [method.fit(sent, number) for number in range(1, 21)]
    assert results[-1].upload.keys() == sent.keys()
    after, lr = method.state_dict(), resolve_settings({"method": "fedper"}).lr
    # A step is about lr long. The base starts again in every round, the head goes on.
    assert all(np.abs(array).max() < 5 * lr for array in results[-1].upload.values())
    assert all(np.abs(after[name] - array).max() > 10 * lr for name, array in before.items())
