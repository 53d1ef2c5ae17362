"""Training at home: the coordinator only keeps the minutes."""

from collections.abc import Mapping

from fedgt_server.methods.base import RoundReport, ServerMethod
from shared.wire import Arrays, Profile, Update


class Local(ServerMethod):
    """Sends nothing, averages nothing."""

    def begin(self, initial: Arrays) -> None:
        """Institutions start by themselves, from the same seed."""

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        """Nothing."""
        return {}

    def message(self, institution: str) -> Arrays:
        """Nothing."""
        return {}

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Nothing to take."""
        return RoundReport()

    def state_dict(self) -> Arrays:
        """Nothing."""
        return {}

    def load_state_dict(self, saved: Arrays) -> None:
        """Nothing."""
