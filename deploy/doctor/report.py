"""All checks of a kit, in the order in which to fix what they find."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from deploy.doctor import coordinator, local, network
from deploy.doctor.check import Check, State
from deploy.doctor.kit import CoordinatorKit, InstitutionKit
from shared.errors import FedGTError

# Some checks are made by one call: each needs the one before it.
CheckCall = Callable[[], list[Check]]


def examine(folder: Path, only: str = "") -> list[Check]:
    """Make every check of a kit, or only the one called ``only``."""
    asked = _coordinator(folder) if CoordinatorKit.is_in(folder) else _institution(folder)
    if not only:
        return [check for names in asked for check in asked[names]()]
    for names in asked:
        if only in names:
            return [_alone(asked[names](), only)]
    known = ", ".join(name for names in asked for name in names)
    raise FedGTError(f"--only {only}: there is no such check; there are: {known}")


def _alone(checks: list[Check], name: str) -> Check:
    """Return the check called ``name``; one that was not made, with what failed before it."""
    asked = next(check for check in checks if check.name == name)
    before = next((check for check in checks if check.state is State.failed), None)
    if asked.state is State.skipped and before:
        return replace(asked, finding=f"not asked: {before.finding}", remedy=before.remedy)
    return asked


def _institution(folder: Path) -> dict[tuple[str, ...], CheckCall]:
    kit = InstitutionKit.open(folder)
    return {
        ("programs",): lambda: [local.check_programs(local.INSTITUTION_PROGRAMS, kit.folder)],
        ("name",): lambda: [local.check_identity(kit)],
        ("policy",): lambda: [local.check_policy(kit)],
        ("code",): lambda: [local.check_code(kit)],
        ("app user",): lambda: [local.check_user(kit)],
        ("data",): lambda: [local.check_data(kit)],
        ("disk",): lambda: [local.check_room(kit)],
        ("device",): lambda: [local.check_device(kit.node.device)],
        ("key",): lambda: [local.check_key(kit)],
        ("ca.crt",): lambda: [local.check_authority(kit)],
        ("port", "tls", "admission"): lambda: network.check_network(kit),
    }


def _coordinator(folder: Path) -> dict[tuple[str, ...], CheckCall]:
    kit = CoordinatorKit.open(folder)
    return {
        ("programs",): lambda: [local.check_programs(coordinator.PROGRAMS, kit.folder)],
        ("keys",): lambda: [coordinator.check_keys(kit)],
        ("code",): lambda: [coordinator.check_code(kit)],
        ("server.key",): lambda: [coordinator.check_server_key(kit)],
        ("operator",): lambda: [coordinator.check_operator(kit)],
        ("ca.crt",): lambda: [coordinator.check_authority(kit)],
        ("server.crt",): lambda: [coordinator.check_certificate(kit)],
        ("clock",): lambda: [coordinator.check_clock(kit)],
        ("disk",): lambda: [coordinator.check_room(kit)],
        ("fleet port",): lambda: [coordinator.check_fleet(kit)],
        ("control",): lambda: [coordinator.check_control(kit)],
    }
