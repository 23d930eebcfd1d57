"""Checks that every local link of built pages leads to a file, and to a place in it.

Run by `make docs`: ``python docs/check_links.py site``. Links to other sites are not followed.
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a tag in."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif (name == "id" or (name == "name" and tag == "a")) and value:
                self.places.add(value)


@cache
def read(path: Path) -> Page:
    """Return a page's links and places."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(path: Path, site: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    rust = (site / "rust").resolve()
    found = []
    for link in sorted(read(path).links):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        if rust in target.parents and not rust.exists():
            continue  # `make docs` puts rustdoc's pages there
        place = unquote(parts.fragment)
        if not target.is_file():
            found.append(f"{path}: {link} leads to no file")
        elif place and target.suffix == ".html" and place not in read(target).places:
            found.append(f"{path}: {link} leads to no place in its file")
    return found


def main(site: Path) -> str | None:
    """Check all pages but rustdoc's, which rustdoc checks itself."""
    pages = [path for path in sorted(site.rglob("*.html")) if "rust" not in path.parts]
    faults = [fault for path in pages for fault in broken(path, site)]
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    if faults or not pages:
        return f"{len(faults)} broken links in {len(pages)} pages below {site}"
    sys.stdout.write(f"all local links of {len(pages)} pages lead somewhere\n")
    return None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
