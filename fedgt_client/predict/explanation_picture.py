"""An explanation as a small picture: a bar for everything that a prediction leans on."""

from xml.sax.saxutils import escape

from fedgt_client.predict.explain import Explanation, Influence

_ROW, _LABELS, _BARS, _TOP, _MARGIN = 22, 190, 360, 46, 12
_COLOURS = {"neighbour": "#2b6cb0", "global node": "#b7791f"}
_NAME = 24  # characters shown
_SHOWN = 20


def explanation_svg(explanation: Explanation) -> str:
    """Return the picture as SVG: drops in probability as bars, to the left where it rises."""
    shown = [one for one in explanation.influences if one.drop is not None][:_SHOWN]
    largest = max((abs(one.drop or 0.0) for one in shown), default=0.0) or 1.0
    height = _TOP + _ROW * len(shown) + _MARGIN
    width = _LABELS + _BARS + _MARGIN
    title = (
        f"{explanation.node}: {explanation.predicted}, probability {explanation.probability:.3f}"
    )
    brackets = "" if all(one.attention is None for one in shown) else "; attention in brackets"
    axis = _LABELS + _BARS / 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_MARGIN}" y="18" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_MARGIN}" y="36" fill="#555">drop in probability without it '
        f"(largest {largest:.3f}){brackets}</text>",
        f'<line x1="{axis}" y1="{_TOP}" x2="{axis}" y2="{height - _MARGIN}" stroke="#999"/>',
        *(_bar(one, index, largest) for index, one in enumerate(shown)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _bar(one: Influence, index: int, largest: float) -> str:
    drop, y = one.drop or 0.0, _TOP + _ROW * index
    length = abs(drop) / largest * (_BARS / 2 - _MARGIN)
    start = _LABELS + _BARS / 2 - (length if drop < 0 else 0.0)
    name = one.name if one.kind == "neighbour" else f"global node {one.name}"
    if one.label:
        name += f" ({one.label})"
    name = name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
    text = name if one.attention is None else f"{name} [{one.attention:.2f}]"
    return (
        f'<text x="{_MARGIN}" y="{y + 15}">{escape(text)}</text>'
        f'<rect x="{start:.1f}" y="{y + 4}" width="{max(length, 0.5):.1f}" height="{_ROW - 8}" '
        f'fill="{_COLOURS[one.kind]}"><title>{drop:+.4f}</title></rect>'
    )
