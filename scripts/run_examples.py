"""Run the examples and keep what they print and draw for the gallery:
``python scripts/run_examples.py [NAME ...]``."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs/gallery"


def run(script: Path) -> None:
    """Run one example in an empty folder; its output and its picture go to the gallery."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(script)], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode or done.stderr:
            sys.exit(f"{script.name} failed or warned:\n{done.stderr}")
        GALLERY.mkdir(exist_ok=True)
        (GALLERY / f"{script.stem}.txt").write_text(done.stdout)
        shutil.copyfile(Path(folder) / f"out/{script.stem}.png", GALLERY / f"{script.stem}.png")
    print(f"{script.stem}: done")


if __name__ == "__main__":
    for path in sorted((ROOT / "examples").glob("*.py")):
        if path.stem in sys.argv[1:] or not sys.argv[1:]:
            run(path)
