"""Make the README's picture: the top of a run's page, as a browser shows it."""

import sys
from pathlib import Path

from tests.harness.browser import launched, new_tab

_WIDTH, _HEIGHT = 1100, 1180


def main() -> None:
    """Write the picture of the page in argv[1] to argv[2]."""
    page, picture = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    with launched() as browser, new_tab(browser, width=_WIDTH) as tab:
        tab.open(page)
        tab.page.set_viewport_size({"width": _WIDTH, "height": _HEIGHT})
        tab.page.wait_for_timeout(300)  # until the charts have their size
        tab.page.screenshot(path=str(picture))


if __name__ == "__main__":
    main()
