"""GraphGPS: local and global, with an encoding whose signs do not count."""

from dataclasses import replace

import torch

from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.graphgps import GraphGPS
from tests.fedgt_client.graphs import two_groups
from tests.fedgt_client.methods.baselines import institution

PLAIN = GraphTensors.of(two_groups(), torch.device("cpu"))


def model() -> GraphGPS:
    return GraphGPS(4, 2, width=8, layers=2, heads=2, dimensions=2, dropout=0.0)


def test_every_node_reaches_every_other() -> None:
    """Performer is global: a change of one node is felt where no path of two links leads."""
    gps = model().eval()
    nodes = PLAIN.all_nodes()
    before = gps(PLAIN, nodes)
    features = PLAIN.dense_features().clone()
    features[0] += 1.0
    after = gps(replace(PLAIN, features=features), nodes)
    assert ((after - before).abs().amax(1) > 0).all()


def test_signs_of_the_encoding_are_drawn_in_training_only() -> None:
    gps, nodes = model(), PLAIN.all_nodes()
    assert len({float(gps.train()(PLAIN, nodes).sum()) for _ in range(30)}) == 4  # two signs
    assert len({float(gps.eval()(PLAIN, nodes).sum()) for _ in range(3)}) == 1


def test_no_state_but_parameters_changes() -> None:
    """Running statistics would neither be averaged nor saved."""
    gps = model()
    before = {name: value.clone() for name, value in gps.named_buffers()}
    gps.train()(PLAIN, PLAIN.all_nodes())
    for name, value in gps.named_buffers():
        assert torch.equal(value, before[name])
    assert institution("graphgps").initial_arrays()["encoder.weight"].shape == (6 + 2, 16)
