"""docs/settings.md is what the code says."""

from deploy.cli.settings_page import settings_page
from shared.config import RunConfig
from tests.docs.documents import ROOT


def test_the_page_is_up_to_date() -> None:
    written = (ROOT / "docs" / "settings.md").read_text()
    assert written == settings_page(), "run 'make docs'"


def test_every_setting_is_on_the_page() -> None:
    page = settings_page()
    for field in RunConfig.model_fields.values():
        assert page.count(f"\n| `{field.alias}` | ") >= 1
