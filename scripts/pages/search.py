"""What the search of the site finds first: pages that explain. Tables of numbers are left out."""

from __future__ import annotations

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

WITHOUT = re.compile(r"results/.*/")
"""Pages of numbers, one for each experiment: the page of results links to them."""

BOOSTS = {
    r"concepts|troubleshooting|choose|coming": 2.0,
    r"howto/|tutorials/|start": 1.5,
    r"theory/|benchmarks|robustness|compared|results/": 0.7,
    r"reference/": 0.5,
}
"""How much the pages whose address begins so count in search, beside one."""


def boost(address: str) -> float:
    """The factor of a page.

    >>> boost("howto/smooth.md"), boost("estimators.md")
    (1.5, 1.0)
    """
    for beginning, factor in BOOSTS.items():
        if re.match(beginning, address):
            return factor
    return 1.0


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Set what the plugin of the search reads from the page's metadata."""
    address = page.file.src_uri
    if WITHOUT.match(address):
        page.meta["search"] = {"exclude": True}
    else:
        page.meta["search"] = {"boost": boost(address)}
    return markdown
