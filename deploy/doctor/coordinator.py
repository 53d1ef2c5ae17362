"""What institutions will find at the coordinator: certificates that are in time."""

from pathlib import Path

from deploy.doctor.check import Check, failed, ok, warning
from deploy.provision.pki import WARN_DAYS, days_left, is_signed_by, load_certificate
from shared.errors import FedGTError

_RENEW = "where the kits were made: fedgt provision federation.toml --renew, then copy it here"


def examine(folder: Path) -> list[Check]:
    """Every check's line for the coordinator's kit."""
    authority = check_certificate(folder / "ca.crt")
    server = check_certificate(folder / "server.crt")
    return [authority, server, check_chain(folder)]


def check_certificate(source: Path) -> Check:
    """Whether a certificate is there and in time."""
    name = source.name
    try:
        certificate = load_certificate(source)
    except FileNotFoundError:
        return failed(name, "it is missing", "copy it anew from the coordinator's kit")
    except FedGTError as error:
        return failed(name, str(error), "copy it anew from the coordinator's kit")
    left, end = days_left(certificate), f"{certificate.not_valid_after_utc:%Y-%m-%d}"
    if left < 0:
        return failed(name, f"it ended on {end}: every institution refuses it", _RENEW)
    if left < WARN_DAYS:
        return warning(name, f"it ends on {end}", _RENEW)
    return ok(name, f"until {end}")


def check_chain(folder: Path) -> Check:
    """Whether institutions, who hold the authority's certificate, will trust the server's."""
    try:
        authority, server = (load_certificate(folder / name) for name in ("ca.crt", "server.crt"))
    except (FedGTError, OSError):
        return failed("chain", "a certificate cannot be read", "see above")
    if not is_signed_by(server, authority):
        return failed("chain", "ca.crt has not signed server.crt", _RENEW)
    return ok("chain", "ca.crt has signed server.crt")
