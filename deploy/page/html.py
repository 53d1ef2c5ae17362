"""One HTML file that holds all it needs: styles, scripts, data; it may load nothing else."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel

from shared.version import installed_version

Kind = Literal["run", "institution"]

_STYLES = ("vendor/uPlot.min.css", "page.css")
_COMMON = ("vendor/uPlot.iife.min.js", "dom.js", "format.js", "charts.js", "state.js", "slider.js")
_SCRIPTS: dict[Kind, tuple[str, ...]] = {
    "run": (
        *_COMMON,
        "headline.js",
        "curves.js",
        "matrix.js",
        "institutions.js",
        "privacy.js",
        "settings.js",
        "main.js",
    ),
    "institution": (
        *_COMMON,
        "markdown.js",
        "own_model.js",
        "own_trust.js",
        "settings.js",
        "main.js",
    ),
}


def render(view: BaseModel, kind: Kind, *, live: bool = False) -> str:
    """Return a page that shows ``view``; with ``live`` it asks its own server for news."""
    style, script = _joined(_STYLES), _joined(_SCRIPTS[kind])
    parts = {
        "live": ' data-live="true"' if live else "",
        "policy": content_policy(kind, live=live),
        "style": style,
        "version": installed_version(),
        "data": script_safe(view.model_dump_json()),
        "script": script,
    }
    # One pass over the template: what is put in is never searched for marks again.
    pieces = _asset(f"{kind}.html").split("{{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        filled.append(parts[name] + rest)
    return "".join(filled)


def content_policy(kind: Kind, *, live: bool = False) -> str:
    """Return a Content-Security-Policy: these very scripts and styles, and nothing from outside."""
    connect = "connect-src 'self'; " if live else ""
    return (
        "default-src 'none'; "
        f"script-src '{_digest(_joined(_SCRIPTS[kind]))}'; "
        f"style-src '{_digest(_joined(_STYLES))}'; "
        f"{connect}base-uri 'none'; form-action 'none'"
    )


def script_safe(text: str) -> str:
    """Return JSON that cannot end the script element it stands in, and means the same."""
    return (
        text.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


@cache
def _joined(names: tuple[str, ...]) -> str:
    """Return several assets as one; scripts share one scope, which is not the page's global one."""
    text = "\n".join(_asset(name) for name in names)
    return f'"use strict";{{\n{text}\n}}' if names[-1].endswith(".js") else text


@cache
def _asset(name: str) -> str:
    return (files("deploy.page") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    found = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"sha256-{found}"
