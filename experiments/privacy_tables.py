"""The tables of docs/privacy.md, from the records in ``experiments/privacy``.

``audit.json`` is the record of 'fedgt audit', and ``runs/`` holds results (``privacy_runs``).
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev

from deploy.audit.record import markdown, read_audit
from experiments.privacy_runs import POLICY
from experiments.result_table import EMPTY
from fedgt_server.result import Result
from shared.config import RunConfig, Scalar
from shared.errors import FedGTError

RECORDS = Path(__file__).parent / "privacy"
PAGE = Path(__file__).parents[1] / "docs" / "privacy.md"

# What older records do not say, because there was nothing else.
_EARLIER: dict[str, Scalar] = {"own-model": False, "common-model": "off"}

_MARKED = re.compile(r"(<!-- privacy (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_HEAD = ("data", "settings", "ε of a label", "ε of an upload", "rounds", "seeds", "test %")


def rewritten(text: str, records: Path = RECORDS) -> str:
    """Return a page with its tables made again from the records; all else stays."""
    tables = {
        "audit": lambda: markdown(read_audit(records)),
        "accuracy": lambda: accuracy_table(read_runs(records / "runs")),
    }

    def table(found: re.Match[str]) -> str:
        if found[2] not in tables:
            raise FedGTError(f"there is no table '{found[2]}' of privacy: {', '.join(tables)}")
        return f"{found[1]}\n{tables[found[2]]()}\n{found[4]}"

    return _MARKED.sub(table, text)


def read_runs(folder: Path) -> list[Result]:
    """Return the results of all runs in a folder."""
    return [Result.model_validate_json(path.read_bytes()) for path in sorted(folder.glob("*.json"))]


def accuracy_table(runs: Iterable[Result]) -> str:
    """Return test accuracies by data and privacy settings, means over seeds, as Markdown."""
    groups: dict[tuple[str, str, int], list[Result]] = defaultdict(list)
    for run in runs:
        config = RunConfig.build({**_EARLIER, **run.config})
        data = f"{config.dataset}, {len(run.per_client)} institutions"
        policy = "; the default policy" if POLICY in config.run_name else ""
        groups[data, settings_text(config) + policy, run.rounds].append(run)
    lines = ["| " + " | ".join(_HEAD) + " |", "|" + " --- |" * len(_HEAD)]
    for (data, settings, rounds), found in sorted(groups.items()):
        accuracies = [100 * run.test_accuracy for run in found if run.test_accuracy is not None]
        spread = f" ± {stdev(accuracies):.1f}" if len(accuracies) > 1 else ""
        privacy = found[0].privacy
        cells = (
            data,
            settings,
            _number(privacy.epsilon_label_total if privacy else None),
            _number(privacy.epsilon_upload_total if privacy else None),
            str(rounds),
            str(len(found)),
            f"{fmean(accuracies):.1f}{spread}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def settings_text(config: RunConfig) -> str:
    """Return the privacy of a run in a few words, with the model's size where it is another."""
    if config.label_privacy == "dp-sgd":
        trained = "last layer" if config.private_layers == "head" else "all layers"
        steps = "" if config.adam_epsilon >= 1 else ", Adam's steps"
        text = f"DP-SGD on labels, ε = {config.label_epsilon:g}, {trained}{steps}"
    elif config.label_privacy == "randomised-response":
        text = f"randomised response on labels, ε = {config.label_epsilon:g}"
    elif config.ldp == "off":
        text = "no noise"
    elif config.ldp_norm != "coordinate":
        text = f"{config.ldp_norm.upper()} norm of the upload, noise on {_noised(config)}"
    else:
        text = f"noise on {_noised(config)} by coordinate"
    now = RunConfig.build()
    layers = "1 layer" if config.layers == 1 else f"{config.layers} layers"
    size = f"width {config.hidden}, {layers}"
    return text if (config.hidden, config.layers) == (now.hidden, now.layers) else f"{text}; {size}"


def _noised(config: RunConfig) -> str:
    beside = "μ and common gradients" if config.has_common_model else "μ"
    return f"Δθ, {beside}" if config.ldp == "all" else beside


def _number(value: float | None) -> str:
    return EMPTY if value is None else f"{value:.3g}"
