"""What tests of the institution share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Small tensors are fastest so, and results do not depend on the machine."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
