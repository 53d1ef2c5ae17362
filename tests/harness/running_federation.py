"""A federation at work, whose rounds and workers a test watches."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from deploy.engines.processes import ProcessMark
from fedgt_client.graph import Graph
from tests.harness.fault_scenarios import events, wait_for_round
from tests.harness.federation import HarnessFederation


class Running(HarnessFederation):
    """All its processes are started."""

    def __init__(
        self,
        place: Path,
        mark: ProcessMark,
        graphs: Mapping[str, Graph],
        *,
        approved: Path | None = None,
    ) -> None:
        super().__init__(place, graphs, mark)
        if approved:  # an app, besides the installed one
            for host in self.institutions.values():
                host.call("fedgt", "provision", "approve", ".", str(approved)).check_returncode()
        self.start()

    def rounds(self, run_name: str) -> list[dict[str, Any]]:
        """Return the journal's rounds so far."""
        return events(self.run_folder(run_name), "round")

    def wait_for_round(self, run_name: str, number: int) -> None:
        """Wait for the end of a round."""
        folder = self.run_folder(run_name)
        wait_for_round(folder, lambda event: True, f"round {number} is over", after=number - 1)

    def processes(self, text: str) -> list[psutil.Process]:
        """Return processes of the federation that have ``text`` in their command line."""
        found = []
        for process in self._mark.processes():
            with suppress(psutil.NoSuchProcess):
                if text in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def workers(self) -> dict[str, psutil.Process]:
        """Return workers by their institution, whose folder they work in; no two have the same."""
        found: dict[str, psutil.Process] = {}
        for worker in self.processes("fedgt_client.worker"):
            with suppress(psutil.NoSuchProcess):
                name = Path(worker.cwd()).name
                assert name not in found
                found[name] = worker
        return found
