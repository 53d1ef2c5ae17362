"""What mkdocs does beside its own: pages from files above docs/, links that fit the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[1]
# Files above docs/, and their pages.
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_PICTURES = _ROOT / "experiments" / "pictures"
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from above."""
    for source, page in _PAGES.items():
        text = (_ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_for_the_site(text, _ROOT)))
    for picture in sorted(_PICTURES.glob("*.png")):
        place = f"pictures/experiments/{picture.name}"
        files.append(File.generated(config, place, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Change links that lead out of docs/."""
    if page.file.src_uri in _PAGES.values():
        return markdown
    return _for_the_site(markdown, _ROOT / "docs")


def _for_the_site(text: str, folder: Path) -> str:
    def changed(link: re.Match[str]) -> str:
        picture, title, target, anchor = link[1], link[2], link[3], link[4] or ""
        if "://" in target:
            return link[0]
        path = (folder / target).resolve()
        if path.is_relative_to(_ROOT / "docs"):
            return f"{picture}[{title}]({path.relative_to(_ROOT / 'docs')}{anchor})"
        if picture and path.is_relative_to(_PICTURES):
            return f"![{title}](pictures/experiments/{path.name})"
        page = _PAGES.get(str(path.relative_to(_ROOT)))
        # What is in the sources alone is named, and not linked to.
        return f"[{title}]({page}{anchor})" if page else title

    return _LINK.sub(changed, text)
