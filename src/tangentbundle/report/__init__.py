"""Reports for the browser: what a command read, found and wrote, in one HTML file that needs no network.

>>> import tempfile
>>> from pathlib import Path
>>> from tangentbundle.io import Summary
>>> from tangentbundle.report import write_report
>>> summary = Summary("doctor", "tangentbundle doctor --report health.html")
>>> summary.tell("GPU", "none")
>>> with tempfile.TemporaryDirectory() as folder:
...     write_report(summary, Path(folder) / "health.html")
...     "<td>none</td>" in (Path(folder) / "health.html").read_text()
True
"""

from .writing import check_report, write_report

__all__ = ["check_report", "write_report"]
