import gzip
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedgt_client.data import benchmarks
from fedgt_client.data.benchmarks import SOURCES, row_normalise
from fedgt_client.data.catalog import (
    CATALOG,
    dataset_names,
    find_raw_files,
    largest_component_nodes,
    load_dataset,
)
from shared.errors import FedGTError
from tests.fedgt_client.small_graphs import small_graph

BENCHMARKS = tuple(name for name in dataset_names() if name in SOURCES)
REAL = tuple(name for name in BENCHMARKS if name != "ogbn-arxiv")


def listing(folder: Path) -> list[tuple[str, int, int]]:
    return sorted(
        (str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
    )


def test_unknown_name() -> None:
    with pytest.raises(FedGTError, match="dataset is 'core', expected one of consortium, cora"):
        load_dataset("core")


def test_data_folder_that_is_not_there(tmp_path: Path) -> None:
    for name in ("consortium", "cora"):
        with pytest.raises(FedGTError, match="nowhere does not exist"):
            load_dataset(name, data_dir=tmp_path / "nowhere")


def test_variable_that_names_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_DATA", "/nowhere/at/all")
    with pytest.raises(FedGTError, match="/nowhere/at/all, set by FEDGT_DATA, does not exist"):
        load_dataset("cora")
    load_dataset("consortium")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_absent_files_are_named_after_one_try_to_connect(
    name: str, no_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: list[float] = []

    def refuse(address: tuple[str, int], timeout: float) -> socket.socket:
        timeouts.append(timeout)
        raise ConnectionRefusedError(f"no connection to {address[0]}")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.delattr(benchmarks, "_fetch")  # importing PyG to find out would take seconds
    with pytest.raises(FedGTError) as error:
        load_dataset(name)
    assert len(timeouts) == 1
    assert timeouts[0] <= 5
    source, message = SOURCES[name], str(error.value)
    assert all(Path(file).name in message for file in source.files)
    assert str(no_data / source.folders[0] / "raw") in message
    assert len(message.splitlines()) == 1


def test_the_message_names_the_chosen_folder(tmp_path: Path, no_data: Path) -> None:
    assert not no_data.exists()
    with pytest.raises(FedGTError, match=f"into {tmp_path}/planetoid/Cora/raw"):
        load_dataset("cora", data_dir=tmp_path)


@pytest.mark.usefixtures("no_data")
def test_only_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    raw = tmp_path / "Cora" / "raw"
    raw.mkdir(parents=True)
    for file in SOURCES["cora"].files[:-1]:
        (raw / Path(file).name).touch()
    with pytest.raises(FedGTError, match=rf"put ind\.cora\.test\.index into {raw}$"):
        load_dataset("cora", data_dir=tmp_path)


def test_a_failing_download_is_one_line(no_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a page\nof text")

    monkeypatch.setattr(benchmarks, "_fetch", fail)
    monkeypatch.setenv("https_proxy", "http://proxy.example:1")
    with pytest.raises(FedGTError, match="a page of text"):
        load_dataset("cora")
    assert not (no_data / "planetoid").exists()


def test_a_download_is_kept(no_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(_: object, root: Path) -> None:
        write_arxiv(root / "ogbn_arxiv")

    monkeypatch.setattr(benchmarks, "_fetch", fetch)
    monkeypatch.setenv("https_proxy", "http://proxy.example:1")
    graph = load_dataset("ogbn-arxiv")
    assert find_raw_files("ogbn-arxiv") == no_data / "ogbn_arxiv"
    monkeypatch.delattr(benchmarks, "_fetch")
    assert load_dataset("ogbn-arxiv").digest() == graph.digest()


@pytest.mark.slow
def test_importing_the_catalog_does_not_import_torch() -> None:
    script = (
        "import sys, fedgt_client.data.catalog\n"
        "import fedgt_client.data.partition, fedgt_client.data.stats\n"
        "assert not {'torch', 'torch_geometric', 'networkx'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_rows_sum_to_one_or_stay_zero() -> None:
    rows = row_normalise(np.array([[1, 3, 0], [0, 0, 0], [0, 0.5, 0]], np.float32))
    assert rows.tolist() == [[0.25, 0.75, 0], [0, 0, 0], [0, 1, 0]]


def test_largest_component() -> None:
    graph = small_graph(8, [(0, 1), (2, 3), (3, 4), (4, 5), (6, 7)])
    assert largest_component_nodes(graph).tolist() == [2, 3, 4, 5]
    assert largest_component_nodes(small_graph(3, [])).tolist() == [0]
    assert largest_component_nodes(small_graph(4, [(2, 3), (0, 1)])).tolist() == [0, 1]


# ogbn-arxiv: a small file in its real layout.


def write_csv(path: Path, rows: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{row}\n" for row in rows).encode()))


def write_arxiv(folder: Path) -> Path:
    """Write five papers, citations 0-1 (both ways), 1-2, 3-4, 2-2; the component of 0 wins."""
    write_csv(folder / "raw/edge.csv.gz", ["0,1", "1,0", "1,2", "3,4", "2,2"])
    write_csv(folder / "raw/node-feat.csv.gz", [f"{i}.5,-{i}.25,1e-2" for i in range(5)])
    write_csv(folder / "raw/node-label.csv.gz", ["0", "39", "4", "4", "1"])
    write_csv(folder / "raw/node_year.csv.gz", ["2015"] * 5)
    write_csv(folder / "raw/num-node-list.csv.gz", ["5"])
    write_csv(folder / "raw/num-edge-list.csv.gz", ["5"])
    for part, nodes in {"train": ["0", "1"], "valid": ["2"], "test": ["3", "4"]}.items():
        write_csv(folder / f"split/time/{part}.csv.gz", nodes)
    return folder


def write_class_names(folder: Path) -> None:
    names = [f"{index},arxiv cs {index}" for index in range(40)]
    path = folder / "mapping/labelidx2arxivcategeory.csv.gz"
    write_csv(path, ["label idx,arxiv category", *names])


@pytest.mark.usefixtures("no_data")
def test_arxiv(tmp_path: Path) -> None:
    write_arxiv(tmp_path / "ogbn_arxiv")
    graph = load_dataset("ogbn-arxiv", data_dir=tmp_path, largest_component=False)
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (5, 3, 40)
    assert graph.labels.tolist() == [0, 39, 4, 4, 1]
    assert graph.dense_features()[3].tolist() == pytest.approx([3.5, -3.25, 0.01])
    assert graph.indptr.tolist() == [0, 1, 3, 4, 5, 6]
    assert not graph.directed
    assert not (graph.train | graph.val | graph.test).any()
    assert load_dataset("ogbn-arxiv", data_dir=tmp_path).labels.tolist() == [0, 39, 4]


@pytest.mark.usefixtures("no_data")
def test_arxiv_class_names_are_used_where_present(tmp_path: Path) -> None:
    folder = write_arxiv(tmp_path / "ogbn_arxiv")
    assert load_dataset("ogbn-arxiv", data_dir=tmp_path).class_names[39] == "class-39"
    write_class_names(folder)
    assert load_dataset("ogbn-arxiv", data_dir=tmp_path).class_names[39] == "arxiv cs 39"


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize(
    ("file", "rows", "message"),
    [
        ("edge", ["0,1", "1,5"], "row 2: expected whole numbers 0..4"),
        ("edge", ["0,1", "-1,2"], "row 2: expected"),
        ("edge", ["0,1,2"], "has 3 columns, expected 2"),
        ("edge", ["a,b"], "cannot be read as numbers"),
        ("edge", [], "cannot be read as numbers"),
        ("node-feat", ["1,2", "3"], "cannot be read as numbers"),
        ("node-feat", ["1,2", ",4", "5,6", "7,8", "9,1"], "row 2: a value is missing"),
        ("node-label", ["0", "1"], r"has shape \(2, 1\), expected \(5, 1\)"),
        ("node-label", ["0", "40", "0", "0", "0"], "row 2: expected whole numbers -1..39"),
        ("num-node-list", ["6"], "says 6 nodes"),
    ],
)
def test_damaged_arxiv(tmp_path: Path, file: str, rows: list[str], message: str) -> None:
    path = write_arxiv(tmp_path / "ogbn_arxiv") / f"raw/{file}.csv.gz"
    write_csv(path, rows)
    with pytest.raises(FedGTError, match=message) as error:
        load_dataset("ogbn-arxiv", data_dir=tmp_path)
    assert str(path) in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.usefixtures("no_data")
def test_cut_off_arxiv(tmp_path: Path) -> None:
    path = write_arxiv(tmp_path / "ogbn_arxiv") / "raw/node-feat.csv.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(FedGTError, match=r"node-feat\.csv\.gz cannot be read"):
        load_dataset("ogbn-arxiv", data_dir=tmp_path)


def test_nothing_is_written_beside_the_files(tmp_path: Path, no_data: Path) -> None:
    data = tmp_path / "data"
    write_arxiv(data / "ogbn_arxiv")
    before = listing(data)
    load_dataset("ogbn-arxiv", data_dir=data)
    assert listing(data) == before
    assert len(list((no_data / "graphs").iterdir())) == 1


def test_a_changed_file_is_converted_again(tmp_path: Path, no_data: Path) -> None:
    folder = write_arxiv(tmp_path / "ogbn_arxiv")
    load_dataset("ogbn-arxiv", data_dir=tmp_path)
    write_csv(folder / "raw/node-label.csv.gz", ["7"] * 5)
    assert set(load_dataset("ogbn-arxiv", data_dir=tmp_path).labels.tolist()) == {7}
    assert len(list((no_data / "graphs").iterdir())) == 2


def test_a_damaged_cache_is_made_again(tmp_path: Path, no_data: Path) -> None:
    write_arxiv(tmp_path / "ogbn_arxiv")
    first = load_dataset("ogbn-arxiv", data_dir=tmp_path).digest()
    (kept,) = (no_data / "graphs").iterdir()
    (kept / "graph.safetensors").write_bytes(b"half")
    assert load_dataset("ogbn-arxiv", data_dir=tmp_path).digest() == first
    assert (kept / "graph.safetensors").stat().st_size > 100


def test_a_read_only_cache_is_not_needed(tmp_path: Path, no_data: Path) -> None:
    write_arxiv(tmp_path / "ogbn_arxiv")
    no_data.write_text("a file where the folder should be")
    assert load_dataset("ogbn-arxiv", data_dir=tmp_path).num_nodes == 3


def test_folders_are_searched_in_order(
    tmp_path: Path, no_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_arxiv(no_data / "ogbn_arxiv")
    assert find_raw_files("ogbn-arxiv") == no_data / "ogbn_arxiv"
    named = write_arxiv(tmp_path / "named" / "ogbn_arxiv")
    monkeypatch.setenv("FEDGT_DATA", str(named.parent))
    assert find_raw_files("ogbn-arxiv") == named
    chosen = write_arxiv(tmp_path / "chosen" / "ogbn_arxiv")
    assert find_raw_files("ogbn-arxiv", chosen.parent) == chosen
    (chosen / "raw" / "edge.csv.gz").unlink()
    assert find_raw_files("ogbn-arxiv", chosen.parent) == named


# The five real datasets, through PyTorch Geometric.

COMPONENTS = {
    "cora": (2485, 5069),
    "citeseer": (2120, 3679),
    "pubmed": (19717, 44324),
    "amazon-computers": (13381, 245778),
    "amazon-photo": (7487, 119043),
}
CLASS_SIZES = {
    "cora": {"Neural_Networks": 818, "Probabilistic_Methods": 426, "Rule_Learning": 180},
    "citeseer": {"DB": 701, "IR": 668, "HCI": 508},
    "pubmed": {"Diabetes Mellitus, Experimental": 4103},
    "amazon-computers": {"Laptops": 1414},
    "amazon-photo": {"Flashes": 331},
}


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", REAL)
def test_real_counts(name: str) -> None:
    graph, stated = load_dataset(name, largest_component=False), CATALOG[name]
    assert (graph.num_nodes, graph.num_edges) == (stated.nodes, stated.edges)
    assert (graph.num_classes, graph.num_features) == (stated.classes, stated.features)
    sizes = dict(zip(graph.class_names, np.bincount(graph.labels).tolist(), strict=True))
    assert CLASS_SIZES[name].items() <= sizes.items()
    component = load_dataset(name)
    assert (component.num_nodes, component.num_edges) == COMPONENTS[name]


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", REAL)
def test_real_features_and_links(name: str) -> None:
    graph = load_dataset(name, largest_component=False)
    sums = graph.dense_features().sum(axis=1)
    assert np.isclose(sums, 1, atol=1e-4)[sums > 0].all()
    assert graph.dense_features().min() >= 0
    assert isinstance(graph.features, csr_array) == (not name.startswith("amazon"))
    sources, targets = graph.arcs()
    assert (sources != targets).all()
    keys = sources * graph.num_nodes + targets
    assert np.array_equal(keys, np.unique(keys))
    assert np.array_equal(np.sort(targets * graph.num_nodes + sources), keys)


@pytest.mark.slow
def test_real_files_may_be_read_only(
    datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    shutil.copytree(datasets / "planetoid" / "Cora", data / "Cora")  # PyG's own layout
    for path in [*data.rglob("*"), data]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    before = listing(data)
    assert load_dataset("cora", data_dir=data).num_nodes == 2485
    assert listing(data) == before
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["graphs"]


@pytest.mark.slow
def test_a_second_opening_needs_no_torch(real_data: Path, graph_cache: Path) -> None:
    load_dataset("cora")
    script = (
        "import sys; from fedgt_client.data.catalog import load_dataset\n"
        "assert load_dataset('cora').num_nodes == 2485\n"
        "assert not {'torch', 'torch_geometric'} & sys.modules.keys()"
    )
    environment = {**os.environ, "FEDGT_DATA": str(real_data), "FEDGT_CACHE": str(graph_cache)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


@pytest.mark.slow
def test_processes_at_once_share_a_cache(datasets: Path, tmp_path: Path) -> None:
    script = (
        "from fedgt_client.data.catalog import load_dataset; print(load_dataset('cora').digest())"
    )
    environment = {**os.environ, "FEDGT_DATA": str(datasets), "FEDGT_CACHE": str(tmp_path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    digests = {process.communicate(timeout=120)[0] for process in processes}
    assert len(digests) == 1
    assert digests != {""}
    assert len(list((tmp_path / "graphs").iterdir())) == 1


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut_lines(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:100]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "folder", "file", "damage"),
    [
        ("cora", "planetoid/Cora", "ind.cora.allx", truncate),
        ("cora", "planetoid/Cora", "ind.cora.graph", empty),
        ("cora", "planetoid/Cora", "ind.cora.test.index", cut_lines),
        ("amazon-photo", "amazon/Photo", "amazon_electronics_photo.npz", truncate),
        ("amazon-photo", "amazon/Photo", "amazon_electronics_photo.npz", empty),
    ],
)
def test_damaged_real_files_are_named(
    datasets: Path,
    tmp_path: Path,
    name: str,
    folder: str,
    file: str,
    damage: Callable[[Path], None],
) -> None:
    shutil.copytree(datasets / folder, tmp_path / folder)
    path = tmp_path / folder / "raw" / file
    path.chmod(0o644)
    damage(path)
    with pytest.raises(FedGTError) as error:
        load_dataset(name, data_dir=tmp_path)
    assert str(path) in str(error.value)
    assert len(str(error.value).splitlines()) == 1
