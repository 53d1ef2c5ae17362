"""Which profile a federation goes by: the one that most institutions have."""

from collections.abc import Mapping
from typing import NamedTuple

from shared.profile import columns_digest
from shared.wire import Profile


class Agreement(NamedTuple):
    """What most institutions have."""

    profile: Profile | None  # None: nobody fits, or as many have another
    first: str = ""  # the first by name of those who have it
    other: str = ""  # of as many others, where there is no majority


def agree(profiles: Mapping[str, Profile], version: str, columns: str = "") -> Agreement:
    """Return the profile that most have, among those of the coordinator's version.

    Parameters
    ----------
    profiles : by institution
    version : of the coordinator
    columns : digest of the features and classes to have; empty: any
    """
    groups: dict[str, list[str]] = {}
    for name, profile in sorted(profiles.items()):
        digest = columns_digest(profile.features, profile.classes)
        if profile.version == version and columns in ("", digest):
            shapes = repr(sorted(profile.parameters.items()))
            groups.setdefault(digest + shapes, []).append(name)
    # A stable sort: of groups of the same size, the one with the first name stays first.
    ranked = sorted(groups.values(), key=len, reverse=True)
    if not ranked:
        return Agreement(None)
    if len(ranked) > 1 and len(ranked[1]) == len(ranked[0]):
        return Agreement(None, ranked[0][0], ranked[1][0])
    return Agreement(profiles[ranked[0][0]], ranked[0][0])
