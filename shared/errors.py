"""The exception for errors that the user can fix."""


class FedGTError(Exception):
    """Error in the input or the environment, as one line that says what to do.

    The command line prints it without a traceback and exits with status 2.
    """
