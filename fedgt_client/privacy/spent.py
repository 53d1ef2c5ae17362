"""The sums over a ledger's entries."""

from collections import Counter
from dataclasses import dataclass, field

from fedgt_client.privacy.accounting import Loss, basic, composed, over_coordinates
from fedgt_client.privacy.release import Release, Unit

_UNITS: tuple[Unit, ...] = ("coordinate", "upload", "label")


@dataclass
class Spent:
    """What was released so far; adding an entry takes the same time however many there are."""

    uploads: int = 0
    unprotected: int = 0  # uploads with arrays that had no noise
    seeded: int = 0  # uploads whose noise can be drawn again
    # Losses of one unit: of the most exposed coordinate, of whole uploads, of one label.
    counts: dict[Unit, Counter[Loss]] = field(
        default_factory=lambda: {unit: Counter() for unit in _UNITS}
    )
    values: Counter[Loss] = field(default_factory=Counter)  # of every value of every upload
    draws: set[str] = field(default_factory=set)  # noisy data that is paid for

    def add(self, release: Release) -> None:
        """Add an upload."""
        self.uploads += 1
        self.unprotected += any(part.unit == "none" for part in release.parts)
        self.seeded += not release.private
        for unit in _UNITS:
            for loss in self._next_losses(release, unit):
                self.counts[unit][loss] += 1
        for part in release.protected:
            self.draws.add(part.draw)
            if part.unit == "coordinate":
                self.values[Loss(part.mechanism, part.noise)] += part.coordinates

    def epsilon(self, unit: Unit) -> float:
        """Return ε of one coordinate, of the uploads as a whole or of one label."""
        return self._epsilon(unit, self.counts[unit])

    def epsilon_with(self, release: Release) -> float:
        """Return what a budget is compared with, if ``release`` were added.

        That is ε of what is uploaded and ε of one label together: a budget that values have spent
        is not there for uploads in which labels alone are protected, nor the reverse.
        """
        found = {
            unit: self._epsilon(unit, self.counts[unit] + Counter(self._next_losses(release, unit)))
            for unit in _UNITS
            # Of the upload as a whole only where that is promised: it has far too many values.
            if unit != "upload" or worst_loss(release, unit)
        }
        return max(found["coordinate"], found.get("upload", 0.0)) + found["label"]

    def _next_losses(self, release: Release, unit: Unit) -> list[Loss]:
        """Return what a release adds to a unit; what was drawn before adds nothing."""
        new = [part for part in release.parts if not part.draw or part.draw not in self.draws]
        if unit == "label":  # every part tells of the same labels
            return [Loss(part.mechanism, part.noise) for part in new if part.unit == unit]
        worst = worst_loss(release.model_copy(update={"parts": tuple(new)}), unit)
        return [worst] if worst else []

    def _epsilon(self, unit: Unit, counts: Counter[Loss]) -> float:
        # Uploads whose values were protected one by one are much less protected as a whole.
        return composed(counts) + (over_coordinates(self.values) if unit == "upload" else 0.0)

    def metrics(self, release: Release) -> dict[str, float]:
        """Return what is reported after an upload, which is counted already."""
        found: dict[str, float] = {}
        if loss := worst_loss(release, "coordinate"):
            counts = self.counts["coordinate"]
            found |= {
                "epsilon_coordinate": basic({loss: 1}),
                "epsilon_coordinate_total": composed(counts),
                "epsilon_coordinate_basic": basic(counts),
                "epsilon_total": over_coordinates(self.values),
            }
        if worst_loss(release, "upload"):
            found["epsilon_upload_total"] = self.epsilon("upload")
        if worst_loss(release, "label"):
            found["epsilon_label_total"] = self.epsilon("label")
        if found:
            found["epsilon_private"] = float(release.private)
        return found


def worst_loss(release: Release, unit: Unit) -> Loss | None:
    """Return the loss of the unit with the least noise in an upload; None where it has none.

    The parts of an upload are different values, so a coordinate is in one of them only. What is
    promised of the whole upload holds of each of its coordinates.
    """
    units = ("coordinate", "upload") if unit == "coordinate" else (unit,)
    losses = [Loss(part.mechanism, part.noise) for part in release.parts if part.unit in units]
    return min(losses, key=lambda loss: loss.noise, default=None)
