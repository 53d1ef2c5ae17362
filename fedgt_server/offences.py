"""Institutions whose updates were refused again and again: left out for a while, then let back."""

from collections.abc import Mapping

from pydantic import BaseModel

# Refused updates within the last rounds that lead to a quarantine.
_OFFENCES = 3
_WINDOW = 10
# Rounds of a quarantine; the next one of the same institution is twice as long, up to a limit.
_ROUNDS = 5
_LONGEST = 40
# Lengths of updates that are remembered of each institution.
_HISTORY = 5


class Conduct(BaseModel):
    """What is remembered of one institution."""

    lengths: list[float] = []  # of its last updates that were averaged
    offences: list[int] = []  # rounds in which an update was refused, lately
    quarantines: int = 0  # so far
    until: int = 0  # the last round of the present quarantine


class Conducts:
    """What is remembered of all institutions."""

    def __init__(self, known: Mapping[str, Conduct] | None = None) -> None:
        self.known: dict[str, Conduct] = dict(known or {})

    def of(self, institution: str) -> Conduct:
        """Return what is remembered of an institution."""
        return self.known.setdefault(institution, Conduct())

    def in_quarantine(self, institution: str, round_number: int) -> bool:
        """Return whether an institution's updates are not used in a round."""
        return round_number <= self.of(institution).until

    def averaged(self, institution: str, length: float) -> None:
        """Remember the length of an update that was used."""
        conduct = self.of(institution)
        conduct.lengths = [*conduct.lengths, length][-_HISTORY:]

    def refused(self, institution: str, round_number: int) -> str | None:
        """Remember an offence; return what the journal says where a quarantine begins."""
        conduct = self.of(institution)
        lately = [r for r in conduct.offences if r > round_number - _WINDOW and r != round_number]
        conduct.offences = [*lately, round_number]
        if len(conduct.offences) < _OFFENCES or self.in_quarantine(institution, round_number):
            return None
        rounds = min(_ROUNDS * 2**conduct.quarantines, _LONGEST)
        conduct.quarantines += 1
        conduct.offences, conduct.until = [], round_number + rounds
        return (
            f"{institution} is in quarantine up to round {conduct.until}: {_OFFENCES} of its "
            f"updates within {_WINDOW} rounds were refused"
        )

    def returning(self, round_number: int) -> list[str]:
        """Return who is let back in with this round."""
        return sorted(name for name, c in self.known.items() if c.until == round_number - 1 > 0)
