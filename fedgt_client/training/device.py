"""The device to train on."""

import torch

from shared.errors import FedGTError


def choose_device(name: str) -> torch.device:
    """Return the device called ``name``; auto is the first GPU, if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise FedGTError(f"device is '{name}', expected auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise FedGTError(f"device is '{name}', expected auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise FedGTError(f"device is '{name}', but torch finds no such CUDA device here")
    return device
