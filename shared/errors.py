"""The one exception that means: the user can mend this."""


class FedGTError(Exception):
    """A fault in the input or the surroundings, in one line that says what to do.

    The command line prints it without a traceback and exits with 2.
    """
