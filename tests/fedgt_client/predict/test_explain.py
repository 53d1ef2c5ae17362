"""Explanations: what they are made of equals what the model computes."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from fedgt_client.data.own_data import OwnData
from fedgt_client.folders import cache_dir
from fedgt_client.methods import METHODS
from fedgt_client.methods.fedgt import FedGT
from fedgt_client.methods.gcn import LocalGCN
from fedgt_client.methods.own_model import OwnModel
from fedgt_client.model.global_nodes import GlobalNodes
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.predict import load_model, open_data
from fedgt_client.predict.explain import Explanation, Influence, explain
from fedgt_client.predict.explanation_picture import explanation_svg
from fedgt_client.predict.leave_one_out import linked_nodes, without_link
from fedgt_client.predict.model import Model
from fedgt_client.preprocess.cache import prepare
from fedgt_client.preprocess.top_k import Pool
from fedgt_client.sampling import Sampler
from fedgt_client.training.task import TransformerTask
from shared.errors import FedGTError
from tests.fedgt_client.trained_kits import make_kit, train

NODE = "a7"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    kit = make_kit(tmp_path)
    train(kit, 5, lr=0.02, own_model=False)
    return kit


def probability(
    model: Model,
    data: OwnData,
    *,
    without: str | None = None,
    without_global: int | None = None,
) -> dict[str, float]:
    """Return the probabilities of NODE by the model's own evaluation, with something left out."""
    method = model.method(data.graph)
    assert isinstance(method, FedGT)
    config, task = model.record.settings, method.task
    pool: Pool = prepare(data.graph, config, cache_dir() / "prepared").pool
    neighbours, weights = pool[0][:, : config.samples].copy(), pool[1][:, : config.samples].copy()
    if without is not None:
        gone = neighbours == data.position(without)
        neighbours[gone], weights[gone] = -1, 0.0
    centres, counts = task.global_nodes.centres, task.global_nodes.counts
    if without_global is not None:
        kept = [i for i in range(centres.shape[1]) if i != without_global]
        centres, counts = centres[:, kept], counts[:, kept]
    device = torch.device("cpu")
    changed = TransformerTask(
        task.model,
        task.graph,
        Sampler((neighbours, weights), config.samples, device),
        GlobalNodes(centres, counts, config.momentum),
        task._plan,
    )
    scores = changed.predict(torch.tensor([data.position(NODE)])).numpy()
    found = model.calibration.probabilities(scores)[0]
    return dict(zip(model.class_names, found.tolist(), strict=True))


def test_an_unknown_node(kit: Path) -> None:
    with pytest.raises(FedGTError, match="there is no node with the id 'zz'"):
        explain(load_model(kit), open_data(kit / "data"), "zz")


def test_a_model_whose_scores_differ_each_time(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(self: LocalGCN, nodes: np.ndarray) -> np.ndarray:
        return np.random.default_rng().normal(size=(len(nodes), 2))

    train(kit, 1, run="random", method="gcn")
    monkeypatch.setattr(LocalGCN, "predict", drawn)
    with pytest.raises(FedGTError, match="a model of method gcn cannot be explained"):
        explain(load_model(kit, run="random"), open_data(kit / "data"), NODE)


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"fedgt", "local", "gophormer"}))
def test_a_model_without_attention_is_explained_by_links(kit: Path, method: str) -> None:
    train(kit, 2, run="plain", method=method, lr=0.02)
    model, data = load_model(kit, run="plain"), open_data(kit / "data")
    found = explain(model, data, NODE)
    node, graph = data.position(NODE), data.graph
    scores = model.scores(data)[node]
    chances = model.calibration.probabilities(scores[None])[0]
    assert found.probability == pytest.approx(chances.max(), abs=1e-6)
    neighbours = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]
    names = {data.ids[int(other)].as_py() for other in neighbours}
    assert {one.name for one in found.influences[1:]} == names
    first = found.influences[1]
    left = replace(data, graph=without_link(graph, node, data.position(first.name)))
    assert left.graph.num_edges == graph.num_edges - 1
    after = model.calibration.probabilities(model.scores(left)[node][None])[0]
    assert first.drop == pytest.approx(chances.max() - after[chances.argmax()], abs=1e-5)
    assert "[" not in explanation_svg(found)


def mixture_without(model: Model, data: OwnData, other: str) -> dict[str, float]:
    """Return the probabilities of NODE by all models together, with another node taken away."""
    method, graph = model.method(data.graph), data.graph
    assert isinstance(method, FedGT)
    node, gone = data.position(NODE), data.position(other)
    config, task = model.record.settings, method.task
    pool: Pool = prepare(graph, config, cache_dir() / "prepared").pool
    neighbours, weights = pool[0].copy(), pool[1].copy()
    neighbours[pool[0] == gone], weights[pool[0] == gone] = -1, 0.0
    own_weight = task.sampler.own_weight
    task.sampler = Sampler((neighbours, weights), config.samples, torch.device("cpu"))
    task.sampler.own_weight = own_weight  # type: ignore[method-assign]
    assert method._own is not None
    left = without_link(graph, node, gone)
    method._own._task.graph = GraphTensors.of(left, torch.device("cpu"))
    found = model.calibration.probabilities(method.predict(np.array([node])))[0]
    return dict(zip(model.class_names, found.tolist(), strict=True))


@pytest.mark.parametrize("own", [0.0, 0.5, 1.0])
def test_models_that_predict_too_are_explained_together(
    kit: Path, monkeypatch: pytest.MonkeyPatch, own: float
) -> None:
    def choose(self: OwnModel, nodes: Tensor, federated: Tensor) -> Tensor:
        self.weight = own
        return self.mix(nodes, federated)

    monkeypatch.setattr(OwnModel, "choose", choose)
    train(kit, 2, run="mixed", lr=0.02, own_model=True, common_model="mean")
    model, data = load_model(kit, run="mixed"), open_data(kit / "data")
    found = explain(model, data, NODE)
    chances = model.calibration.probabilities(model.scores(data)[[data.position(NODE)]])[0]
    assert found.probability == pytest.approx(chances.max(), abs=1e-6)
    global_nodes = [one for one in found.influences if one.kind == "global node"]
    neighbours = [one for one in found.influences if one.kind == "neighbour"]
    assert bool(global_nodes) == (own < 1)
    seen = [one.attention for one in found.influences if one.attention is not None]
    assert sum(seen) == pytest.approx(1.0 if own < 1 else 0.0, abs=1e-5)
    names = {data.ids[int(i)].as_py() for i in linked_nodes(data.graph, data.position(NODE))}
    assert own == 0 or names <= {one.name for one in neighbours}
    assert own < 1 or names == {one.name for one in neighbours}
    for one in neighbours:
        after = mixture_without(model, data, one.name)[found.predicted]
        assert one.drop == pytest.approx(found.probability - after, abs=1e-5)
    assert max(abs(one.drop or 0.0) for one in neighbours) > 1e-4


@pytest.mark.parametrize("settings", [{}, {"layers": 1}, {"layers": 3, "ppr_bias": False}])
def test_drops_are_what_the_model_loses(kit: Path, settings: dict[str, int]) -> None:
    if settings:
        train(kit, 2, run="other", own_model=False, **settings)
    model, data = load_model(kit), open_data(kit / "data")
    found = explain(model, data, NODE)
    before = probability(model, data)
    assert found.predicted == max(before, key=before.__getitem__)
    assert found.probability == pytest.approx(before[found.predicted], abs=1e-5)
    kinds = [one.kind for one in found.influences]
    assert (kinds[0], kinds.count("neighbour"), kinds.count("global node")) == ("itself", 4, 3)
    for one in found.influences[1:]:
        left_out = (
            {"without": one.name} if one.kind == "neighbour" else {"without_global": int(one.name)}
        )
        after = probability(model, data, **left_out)[found.predicted]
        assert one.drop == pytest.approx(before[found.predicted] - after, abs=1e-5)
    assert max(abs(one.drop or 0.0) for one in found.influences) > 1e-4


def test_attention_adds_up_to_one_and_the_largest_drop_comes_first(kit: Path) -> None:
    found = explain(load_model(kit), open_data(kit / "data"), NODE).influences
    assert sum(one.attention or 0.0 for one in found) == pytest.approx(1.0, abs=1e-5)
    drops = [abs(one.drop or 0.0) for one in found[1:]]
    assert drops == sorted(drops, reverse=True)


def test_a_node_without_links_leans_on_global_nodes_alone(kit: Path) -> None:
    new = {"account": ["n1"], "balance": [3.0], "age": [4], "country": ["DE"]}
    data = open_data(kit / "data").attach(pa.table(new))
    found = explain(load_model(kit), data, "n1").influences
    assert {one.kind for one in found} == {"itself", "global node"}


def test_without_global_attention(kit: Path) -> None:
    train(kit, 1, run="near", own_model=False, global_attention=False)
    found = explain(load_model(kit, run="near"), open_data(kit / "data"), NODE).influences
    assert {one.kind for one in found} == {"itself", "neighbour"}


def test_an_explanation_of_other_scores_is_refused(
    kit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_scores(self: FedGT, nodes: np.ndarray) -> np.ndarray:
        return np.full((len(nodes), 2), 7.0, np.float32)

    monkeypatch.setattr(FedGT, "predict", other_scores)
    with pytest.raises(FedGTError, match="scores differ from the model's"):
        explain(load_model(kit), open_data(kit / "data"), NODE)


def test_the_picture_is_valid_and_escapes_names() -> None:
    influences = (
        Influence("itself", "a<1", None, None, 0.5, None),
        Influence("neighbour", "b&<2>", 'ba"d', 0.1, 0.3, 0.2),
        Influence("global node", "0", None, None, 0.2, -0.1),
    )
    picture = explanation_svg(Explanation("a<1", "bad", 0.7, influences))
    root = ElementTree.fromstring(picture)
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a<1: bad, probability 0.700" in texts
    assert any(text.startswith('b&<2> (ba"d)') for text in texts)
    assert any(text.startswith("global node 0") for text in texts)
