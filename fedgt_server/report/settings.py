"""The settings of a run, and which of them differ from the defaults of method and privacy."""

from collections.abc import Mapping

from fedgt_server.methods import METHODS
from fedgt_server.report.view import SettingView
from shared.config import RunConfig, Scalar

# Folders on the coordinator's machine are nobody else's concern.
_FOLDERS = {"data-dir", "results-dir", "state-dir"}
_HIDDEN = "a folder on the machine that ran it"
# Names of this very run, and how it was started.
_OF_THE_RUN = {"run-name", "resume"}


def setting_views(config: Mapping[str, Scalar]) -> list[SettingView]:
    """Return all settings of a run in the order of ``RunConfig``."""
    method = str(config.get("method", ""))
    info = METHODS.get(method)
    of_method = {**(info.defaults if info else {}), **RunConfig.privacy_defaults(config)}
    defaults = RunConfig.build(method_defaults=of_method).to_flower()
    meanings = {str(f.alias): f.description or "" for f in RunConfig.model_fields.values()}
    found = []
    for key, value in config.items():
        hidden = key in _FOLDERS and bool(value)
        default = method if key == "method" else defaults.get(key)
        found.append(
            SettingView(
                key=key,
                value=_HIDDEN if hidden else value,
                default=default,
                changed=value != default and not hidden and key not in _OF_THE_RUN,
                description=meanings.get(key, ""),
            )
        )
    return found
