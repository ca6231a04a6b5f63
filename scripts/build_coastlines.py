"""Build the coastlines that ship with the package: python scripts/build_coastlines.py
land-110m.json

The input is Natural Earth's land at 1:110 million, version 4.1 (public domain,
naturalearthdata.com), as TopoJSON: `npm pack world-atlas@2.0.2` leaves an archive with
package/land-110m.json.

The outlines of the land, without a cut along the antimeridian, are stored as one curve of
(longitude, latitude) in hundredths of a degree, with the pair (MISSING, MISSING) between lines.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

SOURCE_SHA256 = "ead5f68119c49a9250902e7da303bcb209341bbb8fefe7369a439b48b704658a"
TARGET = Path(__file__).parents[1] / "src/tangentbundle/earth/coastlines.npz"
MISSING = np.iinfo(np.int16).min
PROVENANCE = (
    "Natural Earth, land at 1:110 million, version 4.1; public domain, "
    "https://www.naturalearthdata.com"
)


def read(path: Path) -> list[np.ndarray]:
    """Lines of (longitude, latitude) in degrees."""
    raw = path.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    if digest != SOURCE_SHA256:
        raise SystemExit(
            f"{path} has SHA-256 {digest}, expected {SOURCE_SHA256}: this is another version of "
            "the file."
        )
    topology = json.loads(raw)
    scale, origin = (np.array(topology["transform"][key]) for key in ("scale", "translate"))
    lines = [scale * np.cumsum(arc, axis=0) + origin for arc in topology["arcs"]]
    cuts = [
        np.flatnonzero((np.abs(line) == 180)[1:, 0] & (np.abs(line) == 180)[:-1, 0]) + 1
        for line in lines
    ]
    return [part for line, cut in zip(lines, cuts, strict=True) for part in np.split(line, cut)]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    lines = read(Path(sys.argv[1]))
    gap = np.full((1, 2), MISSING, np.int16)
    curve = np.concatenate(
        [part for line in lines for part in (np.rint(100 * line).astype(np.int16), gap)]
    )
    np.savez_compressed(TARGET, curve=curve, source=PROVENANCE, source_sha256=SOURCE_SHA256)
    print(f"{TARGET.name}: {len(lines)} lines, {TARGET.stat().st_size} bytes")
