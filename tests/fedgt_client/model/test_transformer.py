"""The graph transformer: whole subgraph and batches are the same."""

from collections.abc import Callable

import pytest
import torch

from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.inference import infer
from fedgt_client.model.inputs import NodeInputs
from fedgt_client.model.transformer import GraphTransformer, TransformerOutput
from fedgt_client.preprocess.laplacian import laplacian_encoding
from fedgt_client.preprocess.ppr import personalised_pagerank
from fedgt_client.sampling import Sampler, Samples
from fedgt_client.training.batches import batches
from tests.fedgt_client.graphs import two_groups

CPU = torch.device("cpu")
LAYERS, WIDTH = 3, 16


def model(*, ppr_bias: bool = True, global_attention: bool = True) -> GraphTransformer:
    torch.manual_seed(0)
    module = GraphTransformer(
        features=6,
        positional_dimensions=2,
        classes=3,
        width=WIDTH,
        layers=LAYERS,
        heads=2,
        dropout=0.5,
        ppr_bias=ppr_bias,
        global_attention=global_attention,
    )
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return module.eval()


def setup(*, sparse: bool = False) -> tuple[NodeInputs, Samples, torch.Tensor]:
    graph = two_groups(30, sparse=sparse)
    inputs = GraphTensors.of(graph, CPU, laplacian_encoding(graph, 2)).inputs()
    sampler = Sampler(personalised_pagerank(graph, size=6), 3, CPU)
    return inputs, sampler.draw(torch.arange(30)), torch.randn(LAYERS + 1, 4, WIDTH)


def samples_of(samples: Samples) -> Callable[[torch.Tensor], Samples]:
    """Give each node the same samples whenever it is asked for them."""
    return lambda nodes: Samples(
        samples.nodes[nodes], samples.mask[nodes], samples.log_weight[nodes]
    )


def run(
    module: GraphTransformer,
    inputs: NodeInputs,
    samples: Samples,
    global_nodes: torch.Tensor,
    nodes: torch.Tensor,
    size: int,
) -> torch.Tensor:
    parts = []
    for batch in batches(inputs, samples_of(samples), nodes, size=size, layers=LAYERS):
        output: TransformerOutput = module(batch.inputs, global_nodes, batch.blocks)
        parts.append(output.logits)
    return torch.cat(parts)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("chunk", [1, 7, 30, 100])
def test_layer_by_layer_gives_the_outputs_of_the_whole(sparse: bool, chunk: int) -> None:
    module, (inputs, samples, distant) = model(), setup(sparse=sparse)
    (batch,) = batches(inputs, samples_of(samples), torch.arange(30), size=0, layers=LAYERS)
    whole: TransformerOutput = module(batch.inputs, distant, batch.blocks)
    parts = list(infer(module.train(), inputs, distant, samples_of(samples), chunk))
    assert [len(part.nodes) for part in parts[:-1]] == [chunk] * (len(parts) - 1)
    assert torch.cat([part.nodes for part in parts]).tolist() == list(range(30))
    logits = torch.cat([part.logits for part in parts])
    assert torch.allclose(logits, whole.logits, atol=1e-5)
    assert not logits.requires_grad
    representations = torch.cat([part.representations for part in parts])
    assert torch.allclose(representations, whole.representations[-1], atol=1e-5)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("size", [1, 7, 30])
def test_batches_give_the_logits_of_the_whole(sparse: bool, size: int) -> None:
    module, (inputs, samples, distant) = model(), setup(sparse=sparse)
    nodes = torch.randperm(30)[:20]
    whole = run(module, inputs, samples, distant, nodes, 0)
    assert torch.allclose(run(module, inputs, samples, distant, nodes, size), whole, atol=1e-5)


def test_gradients_of_batches_are_those_of_the_whole() -> None:
    module, (inputs, samples, distant) = model(), setup()
    nodes = torch.arange(10)
    gradients = []
    for size in (0, 10):
        module.zero_grad()
        run(module, inputs, samples, distant, nodes, size).square().sum().backward()
        gradients.append([p.grad.clone() for p in module.parameters() if p.grad is not None])
    assert len(gradients[0]) == len(list(module.parameters()))
    for whole, batch in zip(*gradients, strict=True):
        assert torch.allclose(whole, batch, rtol=1e-3, atol=1e-4)


def test_node_ids_do_not_matter() -> None:
    module, (inputs, samples, distant) = model(), setup()
    assert isinstance(inputs.features, torch.Tensor)
    order = torch.randperm(30)
    place = order.argsort()
    renamed = NodeInputs(inputs.features[order], inputs.encoding[order])
    moved = Samples(place[samples.nodes[order]], samples.mask[order], samples.log_weight[order])
    expected = run(module, inputs, samples, distant, order, 0)
    assert torch.allclose(
        run(module, renamed, moved, distant, torch.arange(30), 0), expected, atol=1e-5
    )


def test_representations_are_normalised_and_without_gradient() -> None:
    module, (inputs, samples, distant) = model(), setup()
    (batch,) = batches(inputs, samples_of(samples), torch.arange(30), size=0, layers=LAYERS)
    output: TransformerOutput = module(batch.inputs, distant, batch.blocks)
    assert len(output.representations) == LAYERS + 1
    for representation in output.representations:
        assert not representation.requires_grad
        assert representation.mean(dim=1).abs().max() < 1e-5
        assert representation.square().mean(dim=1) == pytest.approx(torch.ones(30), abs=1e-2)


def test_each_layer_attends_to_its_own_set() -> None:
    module, (inputs, samples, distant) = model(), setup()
    nodes = torch.arange(30)
    expected = run(module, inputs, samples, distant, nodes, 0)
    for index in range(LAYERS + 1):
        changed = distant.clone()
        changed[index] += 1.0
        difference = (run(module, inputs, samples, changed, nodes, 0) - expected).abs().max()
        # Nothing attends to the last set, which stands for the institution.
        assert (difference > 1e-4) == (index < LAYERS)


@pytest.mark.parametrize("ppr_bias", [True, False])
def test_without_global_attention_no_set_matters(ppr_bias: bool) -> None:
    inputs, samples, distant = setup()
    nodes = torch.arange(30)
    alone = model(ppr_bias=ppr_bias, global_attention=False)
    expected = run(alone, inputs, samples, distant, nodes, 0)
    assert torch.equal(run(alone, inputs, samples, distant + 1.0, nodes, 0), expected)
    # As if there were none, and not as if they were there.
    whole = model(ppr_bias=ppr_bias)
    assert torch.equal(run(whole, inputs, samples, distant[:, :0], nodes, 0), expected)
    assert not torch.allclose(run(whole, inputs, samples, distant, nodes, 0), expected, atol=1e-4)


def test_one_set_serves_all_layers() -> None:
    module, (inputs, samples, distant) = model(), setup()
    nodes = torch.arange(30)
    repeated = distant[:1].repeat(LAYERS + 1, 1, 1)
    one, many = (run(module, inputs, samples, d, nodes, 0) for d in (distant[:1], repeated))
    assert torch.equal(one, many)
    assert not torch.allclose(one, run(module, inputs, samples, distant, nodes, 0))


def test_a_broken_node_stays_among_those_who_attend_to_it() -> None:
    """Masked places must not lead to it."""
    module, (inputs, samples, distant) = model(), setup()
    assert isinstance(inputs.features, torch.Tensor)
    inputs.features[0] = torch.nan
    alone = Samples(torch.arange(30)[:, None], torch.zeros(30, 1).bool(), torch.zeros(30, 1))
    logits = run(module, inputs, alone, distant, torch.arange(30), 0)
    assert torch.isnan(logits[0]).all()
    assert torch.isfinite(logits[1:]).all()
    drawn = run(module, inputs, samples, distant, torch.arange(30), 0)
    assert torch.isfinite(drawn).any()
