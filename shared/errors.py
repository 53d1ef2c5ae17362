"""The exceptions for errors that the user can fix."""

from typing import ClassVar


class FedGTError(Exception):
    """Error in the input or the environment, as one line that says what to do.

    The command line prints it without a traceback and exits with status 2.
    """


class RefusedError(FedGTError):
    """An institution does not take part in a run, and says why."""

    _SAYS = " refuses the run: "

    def __init__(self, institution: str, reason: str) -> None:
        super().__init__(f"{institution}{self._SAYS}{reason}")
        self.institution = institution
        self.reason = reason

    @classmethod
    def parse(cls, text: str) -> "RefusedError | None":
        """Return the refusal that an error reply tells; None where it tells something else."""
        institution, says, reason = text.partition(cls._SAYS)
        return cls(institution, reason) if says else None


class ConfidentialError(FedGTError):
    """An error whose text is for an institution's own log; the coordinator gets ``told``."""

    told: ClassVar[str]


class DamagedDataError(ConfidentialError):
    """An institution's data cannot be read; the text counts nodes and links."""

    told = "this institution's data is damaged: its log says how"


class ChangedDataError(ConfidentialError):
    """An institution's data is not what it was.

    The text has digests of it: who knows all but a few values could try these out.
    """

    told = (
        "this institution's data is not that of its import, or of the run's beginning: its log "
        "says how"
    )
