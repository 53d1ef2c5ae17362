"""All checks of an institution's kit, in the order in which to mend them."""

from pathlib import Path

from deploy.doctor.check import Check
from deploy.doctor.kit import InstitutionKit
from deploy.doctor.local import (
    check_authority,
    check_data,
    check_device,
    check_identity,
    check_key,
    check_programs,
    check_room,
)
from deploy.doctor.network import check_network


def examine(folder: Path) -> list[Check]:
    """Every check's line."""
    kit = InstitutionKit.open(folder)
    return [
        check_programs(),
        check_identity(kit),
        check_data(kit),
        check_room(kit),
        check_device(),
        check_key(kit),
        check_authority(kit),
        *check_network(kit),
    ]
