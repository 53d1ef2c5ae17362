"""The paper's appendix tables of missing links and of data heterogeneity.

Kept as printed. Amazon-Photo's missing links with 5 disjoint clients (28,928) and with 10
overlapping ones (11,197) appear to be exchanged: see ``docs/data.md``.
"""

from dataclasses import dataclass

CLIENT_COUNTS = {"disjoint": (5, 10, 20), "overlap": (10, 30, 50)}

_MISSING_LINKS = {
    "disjoint": {
        "cora": (403, 615, 853),
        "citeseer": (105, 304, 424),
        "pubmed": (3388, 5969, 8254),
        "amazon-computers": (34578, 65098, 89456),
        "amazon-photo": (28928, 22434, 33572),
        "ogbn-arxiv": (130428, 246669, 290249),
    },
    "overlap": {
        "cora": (1391, 1567, 1733),
        "citeseer": (922, 1043, 1160),
        "pubmed": (11890, 13630, 15060),
        "amazon-computers": (66562, 95530, 107740),
        "amazon-photo": (11197, 37207, 45219),
        "ogbn-arxiv": (291656, 392895, 457954),
    },
}

_HETEROGENEITY = {
    "disjoint": {
        "cora": (0.574, 0.638, 0.689),
        "citeseer": (0.527, 0.566, 0.576),
        "pubmed": (0.345, 0.362, 0.400),
        "amazon-computers": (0.544, 0.616, 0.654),
        "amazon-photo": (0.664, 0.718, 0.759),
        "ogbn-arxiv": (0.593, 0.683, 0.724),
    },
    "overlap": {
        "cora": (0.291, 0.549, 0.643),
        "citeseer": (0.338, 0.537, 0.566),
        "pubmed": (0.238, 0.370, 0.382),
        "amazon-computers": (0.368, 0.570, 0.618),
        "amazon-photo": (0.308, 0.689, 0.721),
        "ogbn-arxiv": (0.427, 0.654, 0.687),
    },
}


@dataclass(frozen=True)
class PaperStatistics:
    """The paper's values for one dataset, setting and number of clients; None if not printed."""

    missing_links: int | None
    heterogeneity: float | None


def paper_statistics(dataset: str, setting: str, clients: int) -> PaperStatistics:
    """Return the paper's values for one dataset, setting and number of clients."""
    if clients not in CLIENT_COUNTS.get(setting, ()) or dataset not in _MISSING_LINKS[setting]:
        return PaperStatistics(None, None)
    column = CLIENT_COUNTS[setting].index(clients)
    return PaperStatistics(
        _MISSING_LINKS[setting][dataset][column], _HETEROGENEITY[setting][dataset][column]
    )
