"""FedGT at the coordinator, Algorithm 3."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedgt_server.aggregation import Array32, personalised_global_nodes
from fedgt_server.common_model import CommonModel
from fedgt_server.groups import Gap, group_similarity
from fedgt_server.methods.base import MethodInfo, RoundReport, join_groups, split_groups
from fedgt_server.methods.personalised import PersonalisedAveraging
from fedgt_server.transport import (
    Floats,
    centred,
    denoised,
    transport_blocks,
    transport_similarity,
)
from fedgt_server.update_sketch import UpdateSketch, stacked
from shared.config import RunConfig
from shared.wire import (
    COMMON,
    COMMON_GRADIENTS,
    GLOBAL_NODES,
    LABEL_DISTRIBUTION,
    WEIGHTS,
    Arrays,
    Profile,
    Update,
)

# Rounds at the beginning of a run in which nobody has earned trust: all are averaged only with
# those that agree with them. What is spoilt then would be missing for the whole run; afterwards
# this costs accuracy where all have the same task, and is for groups that disagree.
_PROBATION = 15
# Gaps in the spectra of all updates and of all gradients of the common model. The largest of
# gradients in 100 rounds: 1.5 on Cora and CiteSeer, 1.9 where institutions overlap; from the tenth
# round on 2.9 to 6.2, later more, where two groups of banks disagree on labels, and with two kinds
# of banks. Of updates, after 12 and 40 rounds: 1.1 and 1.2; 1.6 and 1.4; 1.6 and 1.3.
_OF_GRADIENTS = Gap(2.2, 2.0)
_OF_UPDATES = Gap(1.5, 1.1)
_TURNED = "{}: its common gradient points against its own last ones: left out of that step"


class FedGT(PersonalisedAveraging):
    """Adds global nodes: keeps μ_i of every institution and μ̂_i, what each is sent."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._nodes: dict[str, Array32] = {}  # μ_i, shape: (sets, n_g, d)
        self._sent_nodes: dict[str, Array32] = {}  # μ̂_i, shape: (attended sets, n_g, d)
        self._earlier_nodes: dict[str, Array32] = {}  # that this round's have replaced
        self._sketch: UpdateSketch | None = None  # of all updates, if they are compared
        self._groups = False  # whether institutions were found to want different things
        self._common_part: CommonModel | None = None  # if institutions share one

    def begin(self, initial: Arrays) -> None:
        """Set θ̂^(1), and the starting point of what institutions share."""
        common = {name: array for name, array in initial.items() if name.startswith(COMMON)}
        super().begin({name: array for name, array in initial.items() if name not in common})
        if common:
            self._common_part = CommonModel(
                common, robust=self._config.robust, compared=self._config.compare_updates
            )

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        """Expect Δθ, and what institutions are compared by."""
        config, shapes = self._config, super().expected(profile)
        if config.global_nodes:
            sets = 1 if config.global_node_sets == "input" else config.layers + 1
            shapes[GLOBAL_NODES] = [sets, config.global_nodes, config.hidden]
        if config.similarity == "label":
            shapes[LABEL_DISTRIBUTION] = [len(profile.classes)]
        return shapes

    def message(self, institution: str) -> Arrays:
        """Return θ̂_i and, once the institution has answered, μ̂_i."""
        arrays = super().message(institution)
        if institution in self._sent_nodes:
            arrays[GLOBAL_NODES] = self._sent_nodes[institution]
        if self._common_part:
            arrays |= self._common_part.message()
        return arrays

    def receive(self, institution: str, update: Update) -> Update:
        """Add Δθ_i to θ̂_i, and keep μ_i and what institutions are compared by."""
        arrays = update.arrays
        change = self._add_change(institution, update)
        if self._common_part:
            self._common_part.receive(institution, arrays)
        if self._config.compare_updates:
            self._updates_so_far().receive(institution, change)
        if GLOBAL_NODES in arrays:
            if institution in self._nodes:
                self._earlier_nodes.setdefault(institution, self._nodes[institution])
            # A copy: it may be a part of the whole message.
            self._nodes[institution] = np.array(arrays[GLOBAL_NODES])
        if self._config.similarity == "update":
            self._set_trait(institution, change)
        elif self._config.similarity == "label":
            self._set_trait(institution, arrays[LABEL_DISTRIBUTION])
        return replace(update, arrays={})

    def refuse(self, institution: str) -> None:
        """Undo ``receive``: the global nodes are those of the round before."""
        super().refuse(institution)
        if self._common_part:
            self._common_part.refuse(institution)
        if self._sketch is not None:
            self._sketch.scale(institution, 0.0)
        self._nodes.pop(institution, None)
        if institution in self._earlier_nodes:
            self._nodes[institution] = self._earlier_nodes[institution]

    def shorten(self, institution: str, update: Update, factor: float) -> Update:
        """Take a part of an update, in the sketch as well."""
        if self._sketch is not None:
            self._sketch.scale(institution, factor)
        return super().shorten(institution, update, factor)

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Apply equations 7 and 8 for every institution that has ever answered."""
        self._receive_all(updates)
        if self._sketch is not None:
            self._sketch.end_round()
        turned = self._common_part.step(updates.keys()) if self._common_part else []
        similarity = self._similarity()
        weights = self._weights(similarity, updates)
        self._average(weights)
        self._average_nodes(weights)
        self._earlier_nodes = {}
        report = self._report(similarity, weights)
        return replace(report, warnings=[*report.warnings, *map(_TURNED.format, turned)])

    def state_dict(self) -> Arrays:
        """Return the state of the averages and all global nodes."""
        nodes = {"nodes": self._nodes, "sent_nodes": self._sent_nodes}
        sketches = {} if self._sketch is None else self._sketch.sums
        common = self._common_part.state_dict() if self._common_part else {}
        groups = {"": np.array(self._groups)}
        parts = nodes | {"sketch": sketches, "groups": groups, "common": common}
        return super().state_dict() | join_groups(parts)

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(saved)
        self._nodes, self._sent_nodes, sketches, groups, common = split_groups(
            saved, "nodes", "sent_nodes", "sketch", "groups", "common"
        )
        self._groups = bool(groups.get("", False))
        self._common_part = None
        if common:
            self._common_part = CommonModel.restored(
                common, robust=self._config.robust, compared=self._config.compare_updates
            )
        self._sketch = None
        if sketches:
            self._updates_so_far().sums = sketches

    def _similarity(self) -> Floats:
        """Return the similarity of all institutions, shape (M, M).

        Of their data; where groups of institutions disagree, the mean of it and of how far they
        agree on what to learn.
        """
        similarity = self._data_similarity()
        agreement = self._group_similarity()
        self._groups = agreement is not None
        if agreement is None:
            return similarity
        agreement += similarity
        agreement /= 2.0
        return agreement

    def _group_similarity(self) -> Floats | None:
        """Return how far institutions agree on what to learn, shape (M, M); None without groups.

        By their gradients of the common model, which are all taken at the same weights; without
        such a model by their updates.
        """
        names = self._institutions()
        if self._sketch is None:  # updates are not compared
            return None
        if self._common_part:
            asked, gap = self._common_part.asked(names), _OF_GRADIENTS
        else:
            asked, gap = stacked(self._sketch.sums, names), _OF_UPDATES
        return group_similarity(asked.astype(np.float64), gap, before=self._groups)

    def _is_cautious(self) -> bool:
        return self._groups or self._rounds <= _PROBATION

    def _sums_so_far(self) -> Array32 | None:
        return None if self._sketch is None else stacked(self._sketch.sums, self._institutions())

    def _updates_so_far(self) -> UpdateSketch:
        if self._sketch is None:
            self._sketch = UpdateSketch(len(self._initial))
        return self._sketch

    def _data_similarity(self) -> Floats:
        """Return the similarity of what institutions upload of their data, shape (M, M)."""
        config = self._config
        if config.similarity in ("update", "label"):
            return self._trait_similarity()
        if not self._have_nodes():
            return np.eye(len(self._institutions()))
        fingerprints = self._points(-1)  # the last set
        similarity = transport_similarity(fingerprints, config.similarity)
        if config.ldp != "off" and config.denoise_similarity:
            # Of Gaussian noise, or of Laplace noise.
            variance = (1.0 if config.ldp_norm == "l2" else 2.0) * config.ldp_noise**2
            similarity = denoised(similarity, fingerprints, variance)
        return similarity

    def _average_nodes(self, weights: Array32) -> None:
        """Compute μ̂ of the sets that are attended to; a separate fingerprint is not averaged."""
        if not self._have_nodes():
            return
        config, names = self._config, self._institutions()
        sets = len(self._nodes[names[0]])
        attended = sets if config.global_node_sets == "input" else sets - 1
        plan = "hungarian" if config.similarity in ("update", "label") else config.similarity
        averaged = np.stack(
            [
                personalised_global_nodes(
                    weights, self._set(index), transport_blocks(self._points(index), plan)
                )
                for index in range(attended)
            ],
            axis=1,
        )  # shape: (M, attended sets, n_g, d)
        self._sent_nodes = dict(zip(names, averaged, strict=True))

    def _have_nodes(self) -> bool:
        return all(name in self._nodes for name in self._institutions())

    def _set(self, index: int) -> Array32:
        """Return one set of every institution's global nodes, shape (M, n_g, d)."""
        return np.stack([self._nodes[name][index] for name in self._institutions()])

    def _points(self, index: int) -> Floats:
        """Return a set as it is compared, shape (M, n_g, d)."""
        points = self._set(index).astype(np.float64)
        return centred(points) if self._config.centre_fingerprints else points


INFO = MethodInfo(
    "FedGT",
    "a graph transformer with global nodes, personalised averages by optimal transport",
    FedGT,
    uploads=(WEIGHTS, GLOBAL_NODES, LABEL_DISTRIBUTION, COMMON_GRADIENTS),
    private_updates=True,
)
