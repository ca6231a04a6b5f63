"""Ask the registry for known vulnerabilities of the locked versions; skip, saying so, where it does
not answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements.lock"


def main() -> int:
    options = [
        "--no-deps",
        "--disable-pip",
        "--progress-spinner",
        "off",
        "--timeout",
        "15",
        "--format",
        "json",
    ]
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        found = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        print("audit: skipped, the registry does not answer")
        return 0
    known = [package for package in found if "vulns" in package]
    if not known:
        print(
            f"audit: skipped, the registry knows nothing of vulnerabilities ({len(found)} "
            "packages asked for)"
        )
        return 0
    bad = [(p["name"], p["version"], v["id"], v["fix_versions"]) for p in known for v in p["vulns"]]
    for name, version, what, fixed in bad:
        print(
            f"audit: {name} {version}: {what}, fixed in {', '.join(fixed) or 'no version yet'}",
            file=sys.stderr,
        )
    print(
        f"audit: {len(known)} of {len(found)} packages looked up, {len(bad)} known vulnerabilities"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
