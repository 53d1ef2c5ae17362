"""Own graphs of institutions that are simulated together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedgt_client.data.own_folders import (
    check_institutions,
    name_institutions,
    own_institution,
    write_institutions,
)
from fedgt_client.data.schema import NumericColumn, Schema
from fedgt_client.node import NodeConfig
from shared.errors import FedGTError
from tests.fedgt_client.graphs import settings, two_groups


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class_names": ("even", "uneven")}, "class 2 is 'odd' in {0} and 'uneven' in {1}"),
        ({"class_names": ("even", "odd", "x")}, "class 3 is none in {0} and 'x' in {1}"),
        ({"feature_names": tuple("abcdef")}, "feature 1 is 'f0' in {0} and 'a' in {1}"),
        ({"train": np.zeros(40, np.bool_)}, "{1}: no node is in the training split"),
    ],
)
def test_institutions_that_do_not_fit_are_one_line(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    folders = [tmp_path / "alba", tmp_path / "bora"]
    two_groups().save(folders[0])
    replace(two_groups(), **change).save(folders[1])  # type: ignore[arg-type]
    with pytest.raises(FedGTError) as caught:
        check_institutions(name_institutions(folders))
    assert message.format(*folders) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_scaling_is_another_schema(tmp_path: Path) -> None:
    for name, mean in (("alba", 1.0), ("bora", 2.0)):
        two_groups().save(tmp_path / name)
        column = NumericColumn(name="x", mean=mean, rows=5)
        Schema(columns=(column,), labels=("a",)).save(tmp_path / name / "schema.json")
    folders = name_institutions([tmp_path / "alba", tmp_path / "bora"])
    with pytest.raises(FedGTError, match=r"'x' is encoded differently in .*alba and .*bora"):
        check_institutions(folders)
    (tmp_path / "bora" / "schema.json").unlink()
    check_institutions(folders)


def test_names_are_those_of_the_folders_and_differ(tmp_path: Path) -> None:
    folders = [tmp_path / "b" / "bora", tmp_path / "alba"]
    assert list(name_institutions(folders)) == ["alba", "bora"]
    with pytest.raises(FedGTError, match="two folders are named 'bora'"):
        name_institutions([*folders, tmp_path / "bora"])
    with pytest.raises(FedGTError, match="'two words' cannot name a folder"):
        name_institutions([tmp_path / "two words"])


def test_a_number_becomes_an_institution(tmp_path: Path) -> None:
    write_institutions(tmp_path, {"alba": tmp_path / "x", "bora": tmp_path / "y"})
    config = settings(dataset="own", data_dir=str(tmp_path))
    node = own_institution(NodeConfig(partition_id=1, num_partitions=2), config)
    assert (node.name, node.data_dir) == ("bora", str(tmp_path / "y"))
    deployed = NodeConfig(institution="cara", data_dir="/data")
    assert own_institution(deployed, config) == deployed
    with pytest.raises(FedGTError, match="names 2 institutions, the run has 3"):
        own_institution(NodeConfig(partition_id=1, num_partitions=3), config)
    with pytest.raises(FedGTError, match="a run of other institutions"):
        write_institutions(tmp_path, {"alba": tmp_path / "x"})


@pytest.mark.parametrize("content", ["", "[]", '{"alba": 3}'])
def test_a_list_that_is_none(tmp_path: Path, content: str) -> None:
    node, config = NodeConfig(partition_id=0, num_partitions=1), settings(dataset="own")
    with pytest.raises(FedGTError, match="no data-dir"):
        own_institution(node, config)
    config = settings(dataset="own", data_dir=str(tmp_path))
    with pytest.raises(FedGTError, match="is missing"):
        own_institution(node, config)
    (tmp_path / "institutions.json").write_text(content)
    with pytest.raises(FedGTError, match="does not name institutions"):
        own_institution(node, config)
