"""Write requirements.hashes: the wheels of requirements.lock that serve all platforms, with their
SHA-256.

pip takes hashes for all requirements of a call or for none, and torch, NumPy and others have one
wheel a platform. So `make setup` installs in two steps: first these, each checked against its hash,
then the rest of the lock.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK, HASHES = ROOT / "requirements.lock", ROOT / "requirements.hashes"

HEAD = """# The wheels of requirements.lock that serve all platforms, with their SHA-256.
# Written by `make lock`
# (scripts/lock_hashes.py), installed first by `make setup` with --require-hashes.
"""


def resolve(lock: Path) -> list[dict]:
    """What pip would install for the lock, from its own report; nothing is installed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = [
            "--dry-run",
            "--ignore-installed",
            "--no-deps",
            "--quiet",
            "--disable-pip-version-check",
        ]
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            *options,
            "--report",
            str(report),
            "-r",
            str(lock),
        ]
        subprocess.run(command, check=True)
        return json.loads(report.read_text())["install"]


def main() -> None:
    lines = []
    for item in resolve(LOCK):
        found, about = item["download_info"], item["metadata"]
        if found["url"].endswith("-none-any.whl"):
            digest = found["archive_info"]["hashes"]["sha256"]
            lines.append(f"{about['name']}=={about['version']} --hash=sha256:{digest}\n")
    HASHES.write_text(HEAD + "".join(sorted(lines, key=str.lower)))
    print(f"Wrote {HASHES.name}: {len(lines)} wheels")


if __name__ == "__main__":
    main()
