"""Local training: the coordinator exchanges nothing and only records metrics."""

from collections.abc import Mapping

from fedgt_server.methods.base import MethodInfo, RoundReport, ServerMethod
from shared.config import RunConfig
from shared.wire import Arrays, Profile, Update


class Local(ServerMethod):
    """Sends nothing, averages nothing."""

    def __init__(self, config: RunConfig) -> None:
        pass

    def begin(self, initial: Arrays) -> None:
        """Do nothing: institutions start by themselves, from the same seed."""

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        """Expect no arrays."""
        return {}

    def message(self, institution: str) -> Arrays:
        """Send no arrays."""
        return {}

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Aggregate nothing."""
        return RoundReport()

    def state_dict(self) -> Arrays:
        """Return no arrays."""
        return {}

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore nothing."""


INFO = MethodInfo(
    "Local",
    "FedGT's model, trained by each institution on its own",
    Local,
    # The model that is federated, and no other beside it.
    defaults={"own-model": False, "common-model": "off"},
    uploads=(),
    private_updates=True,  # there are none
)
