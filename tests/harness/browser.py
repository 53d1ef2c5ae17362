"""A page in a real browser: what it asks for, what it complains of, what keys reach."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
_FLAGS = (
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_PARTS = ("playwright", "axe_core_python")
# With pytest.mark.slow on every test that uses it.
needs_browser = pytest.mark.skipif(
    not CHROMIUM.exists() or not all(importlib.util.find_spec(part) for part in _PARTS),
    reason=f"there is no {CHROMIUM}, or no {' and '.join(_PARTS)}: apt-get install chromium",
)
# Everything that a person can use; of what is folded up the summary.
_USABLE = """() => [...document.querySelectorAll(
    'a[href], button, select, input, summary, [tabindex="0"]'
)].filter((one) => one.checkVisibility({visibilityProperty: true}))"""
_COUNT = f"({_USABLE})().length"
_MARK_FOCUSED = "document.activeElement.dataset.reached = 'yes'"
_NOT_REACHED = f"({_USABLE})().filter((one) => !one.dataset.reached).map((one) => one.outerHTML)"


class Tab:
    """A tab with one page."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def __enter__(self) -> "Tab":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.page.context.close()

    def open(self, place: Path) -> None:
        """Open a page from disk, and wait until its script has shown its data."""
        self.page.goto(place.as_uri())
        self.page.wait_for_selector("main[data-shown]")

    @property
    def width(self) -> int:
        """How wide the page is: more than the window where something sticks out."""
        return int(self.page.evaluate("document.documentElement.scrollWidth"))

    def text(self, selector: str = "body") -> str:
        """Return the text that a person sees in an element."""
        return str(self.page.inner_text(selector))

    def serious_faults(self) -> list[str]:
        """Return what axe-core calls serious or critical."""
        found = importlib.util.find_spec("axe_core_python")
        assert found is not None
        assert found.origin is not None
        self.page.add_script_tag(path=str(Path(found.origin).with_name("axe.min.js")))
        violations = self.page.evaluate("axe.run()")["violations"]
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:120]}"
            for one in violations
            if one["impact"] in ("serious", "critical")
        ]

    def not_reached_by_keys(self) -> list[str]:
        """Press the tab key through the page; return what can be used and was never reached."""
        for _ in range(int(self.page.evaluate(_COUNT)) + 2):
            self.page.keyboard.press("Tab")
            self.page.evaluate(_MARK_FOCUSED)
        return list(self.page.evaluate(_NOT_REACHED))


@contextmanager
def launched() -> Iterator[Any]:
    """Start a browser, and end it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def new_tab(browser: Any, *, width: int = 1440, scheme: str = "light") -> Tab:
    """Open a tab; the policy of the page is off for axe-core's script alone, see ``render``."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    return Tab(context.new_page())
