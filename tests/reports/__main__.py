"""`python -m tests.reports`: writes docs/explanation/reports.md."""

from __future__ import annotations

from tests.reports.page import PAGE, page

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
