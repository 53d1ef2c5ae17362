"""Local training at the coordinator."""

import numpy as np

from deploy.settings import resolve_settings
from fedgt_server.methods import server_method
from fedgt_server.methods.fedgt import FedGT
from fedgt_server.methods.local import Local
from shared.wire import Profile, Update


def test_nothing_is_sent_expected_or_kept() -> None:
    method = Local(resolve_settings({"method": "local"}))
    method.begin({"weight": np.zeros(2, np.float32)})
    assert method.message("a") == {}
    assert method.expected(Profile("1", [], [], {"weight": [2]})) == {}
    report = method.aggregate({"a": Update("a", {}, {"val_accuracy": 1.0})})
    assert (report.facts, report.warnings) == ({}, [])
    assert method.state_dict() == {}


def test_configuration_names_the_method() -> None:
    assert isinstance(server_method(resolve_settings({"method": "local"})), Local)
    assert isinstance(server_method(resolve_settings({"method": "fedgt"})), FedGT)
