"""Resolve the settings of a run where it is started."""

from collections.abc import Mapping

from fedgt_client.preprocess.samplers import SAMPLERS
from fedgt_server.methods import method_info
from shared.config import RunConfig, Scalar
from shared.registry import lookup


def resolve_settings(
    values: Mapping[str, Scalar] | None = None, *, preset: str = "default"
) -> RunConfig:
    """Merge defaults, those of method and label privacy, the preset, ``values``; check all names.

    All participants of the run get the complete result, and need not know any defaults.

    Raises
    ------
    FedGTError
        In one line that names the key, the value seen and what would be right.
    """
    values = values or {}
    default = RunConfig.model_fields["method"].default
    info = method_info(str(values.get("method", default)))
    defaults = {**info.defaults, **RunConfig.privacy_defaults(values)}
    config = RunConfig.build(values, preset=preset, method_defaults=defaults)
    config.check_privacy(private_updates=info.private_updates)
    lookup(SAMPLERS, "sampler", config.sampler)
    return config
