"""Reports for the browser: what a command read, found and wrote, in one HTML file that needs no network."""

from .writing import check_report, write_report

__all__ = ["check_report", "write_report"]
