"""The exceptions for errors that the user can fix."""


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


class DamagedDataError(FedGTError):
    """An institution's data cannot be read; how is for its own log: it counts nodes and links."""
