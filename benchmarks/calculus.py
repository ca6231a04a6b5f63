"""Calculus on point clouds against exact answers and pcdiff: derivatives, curvature, harmonic
fields, decomposition.

``large`` decomposes a field on a million points, also on a GPU.
"""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from scipy.special import sph_harm_y

import tangentbundle as tb
from harness.records import Row
from harness.timing import baseline, best_in_turns
from tangentbundle.calculus import Derivatives, betti_number

SPHERE, TORUS, FLAT = (
    tb.manifolds.Sphere(2),
    tb.manifolds.Torus(1.0, 0.4),
    tb.manifolds.FlatTorus((1.0, 1.0)),
)
ELLIPSOID = tb.manifolds.Ellipsoid((1.0, 0.8, 0.6))


def error(got: np.ndarray, exact: np.ndarray, weights: np.ndarray | float = 1.0) -> float:
    """The relative error in the Euclidean norm."""
    return float(np.sqrt((weights * (got - exact) ** 2).sum() / (weights * exact**2).sum()))


def row(what: str, case: str, n: int, value: float, asked: str = "", peer: float | str = "") -> Row:
    return {
        "what": what,
        "case": case,
        "n": n,
        "value": float(value),
        "asked": asked,
        "pcdiff": peer,
    }


def test_function(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f = z + xy on the unit sphere, its gradient (n, 3) and its Laplacian."""
    x, y, z = points.T
    slope = np.stack([y, x, np.ones_like(z)], axis=1)
    return z + x * y, slope - (slope * points).sum(1)[:, None] * points, -2 * z - 6 * x * y


def pcdiff_maps(points: np.ndarray) -> tuple:
    """Frames, gradient and divergence of pcdiff, 20 neighbours."""
    pcdiff = baseline("pcdiff")
    edges = pcdiff.knn_graph(points, 20)
    normal, *axes = pcdiff.estimate_basis(points, edges)
    return (np.stack(axes, axis=2), *pcdiff.build_grad_div(points, normal, *axes, edges))


def derivatives(sizes: tuple[int, ...] = (2000, 20_000)) -> list[Row]:
    rows = []
    for n in sizes:
        points = SPHERE.sample(n, seed=1)
        f, slope, laplacian = test_function(points)
        frames, gradient, divergence = pcdiff_maps(points)
        vectors = np.einsum("nij,nj->ni", frames, np.asarray(gradient @ f).reshape(n, 2))
        theirs = error(vectors, slope)
        coordinates = np.einsum("nij,ni->nj", frames, slope).ravel()
        their_divergence = error(np.asarray(divergence @ coordinates).ravel(), laplacian)
        bundle = tb.TangentBundle.from_points(points)
        ours = error(bundle.to_ambient(bundle.gradient(neighbors=20) @ f[:, None, None]), slope)
        rows.append(row("gradient of z + xy", "sphere", n, ours, "half of pcdiff", theirs))
        found = (bundle.divergence(neighbors=20) @ bundle.to_coordinates(slope))[:, 0, 0]
        rows.append(
            row(
                "divergence of its gradient",
                "sphere",
                n,
                error(found, laplacian),
                "half",
                their_divergence,
            )
        )
    return rows


def build(n: int = 40_000) -> list[Row]:
    """Seconds from points with a bundle to gradient and divergence; pcdiff from its frames, and
    from the points."""
    points = SPHERE.sample(n, seed=1)
    pcdiff = baseline("pcdiff")
    edges = pcdiff.knn_graph(points, 20)
    frames = pcdiff.estimate_basis(points, edges)
    bundle = tb.TangentBundle.from_points(points)

    def ours() -> None:
        calculus = Derivatives(bundle, neighbors=20)
        calculus.gradient(), calculus.divergence()

    times = best_in_turns(
        {
            "ours": ours,
            "maps": lambda: pcdiff.build_grad_div(points, *frames, edges),
            "all": lambda: pcdiff_maps(points),
        },
        repeats=3,
    )
    return [
        row(
            "seconds to build gradient and divergence",
            "with neighbours; pcdiff without",
            n,
            times["ours"],
            "",
            times["maps"],
        ),
        row(
            "seconds to build gradient and divergence",
            "both with neighbours",
            n,
            times["ours"],
            "a tenth",
            times["all"],
        ),
    ]


def curl_of_gradients(sizes: tuple[int, ...] = (1000, 4000, 16_000)) -> list[Row]:
    """|curl grad f| times the distance of neighbours over |grad f|, and its slope over that
    distance."""
    rows = []
    angle = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    u, v = (a.ravel() for a in np.meshgrid(angle, angle))
    grid = np.stack([np.cos(u), np.sin(u), np.cos(v), np.sin(v)], axis=1)
    calculus = Derivatives(tb.TangentBundle.from_frames(grid, FLAT.frames(grid)))
    gradient = calculus.gradient() @ np.random.default_rng(0).standard_normal((len(grid), 1, 1))
    ratio = np.linalg.norm(calculus.rot().adjoint @ gradient) / np.linalg.norm(gradient) * angle[1]
    rows.append(row("adjoint curl of gradients", "flat periodic grid", len(grid), ratio, "1e-10"))
    for name, manifold in (("sphere", SPHERE), ("torus", TORUS)):
        ratios = []
        for n in sizes:
            points = manifold.sample(n, seed=0)
            calculus, h = (
                Derivatives(tb.TangentBundle.from_points(points)),
                np.sqrt(manifold.volume / n),
            )
            gradient = (
                calculus.gradient() @ (points[:, 2] + points[:, 0] * points[:, 1])[:, None, None]
            )
            ratios.append(np.linalg.norm(calculus.curl() @ gradient) / np.linalg.norm(gradient) * h)
            rows.append(row("curl of gradients", name, n, ratios[-1], "falls"))
        slope = np.polyfit(-0.5 * np.log(sizes), np.log(ratios), 1)[0]
        rows.append(row("curl of gradients: order in the distance", name, sizes[-1], slope, "> 0"))
    return rows


def spectra(n: int = 20_000) -> list[Row]:
    """Mean relative error of the lowest Hodge eigenvalues; frames and curvature estimated."""
    rows = []
    cases = [("S2", SPHERE, np.repeat([2.0, 6.0, 12.0], [6, 10, 14]), "0.015")]
    cases += [
        ("S3", tb.manifolds.Sphere(3), np.repeat([3.0, 4.0, 8.0, 9.0], [4, 6, 9, 16]), "0.04")
    ]
    for name, manifold, exact, asked in cases:
        found = (
            tb.TangentBundle.from_points(manifold.sample(n, seed=0))
            .hodge()
            .spectrum(len(exact), tol=1e-7)[0]
        )
        rows.append(row("Hodge eigenvalues", name, n, np.abs(found / exact - 1).mean(), asked))
    return rows


def genus_two(n: int, seed: int) -> np.ndarray:
    """Points, uniform by area, on a double torus: the level 0.3 of the product of two tori's
    functions."""
    rng, shift, tube, found, width = np.random.default_rng(seed), 1.25, 0.5, [], 0.03
    box = np.array([shift + 1.8, 1.8, 0.9])

    def level(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = [], []
        for centre in (-shift, shift):
            x, y, z = p[:, 0] - centre, p[:, 1], p[:, 2]
            r = np.hypot(x, y)
            values.append((r - 1) ** 2 + z * z - tube**2)
            slopes.append(np.stack([2 * (r - 1) * x / r, 2 * (r - 1) * y / r, 2 * z], axis=1))
        return values[0] * values[1] - 0.3, values[0][:, None] * slopes[1] + values[1][
            :, None
        ] * slopes[0]

    while sum(map(len, found)) < n:
        p = rng.uniform(-box, box, size=(200_000, 3))
        value, slope = level(p)
        p = p[
            np.abs(value) < width * np.linalg.norm(slope, axis=1)
        ]  # a shell of constant thickness
        for _ in range(12):
            value, slope = level(p)
            p = p - (value / np.maximum((slope**2).sum(1), 1e-12))[:, None] * slope
        found.append(p[(np.abs(level(p)[0]) < 1e-10) & (np.abs(p) < box).all(axis=1)])
    return np.concatenate(found)[:n]


def betti(seeds: int = 20, n: int = 5000) -> list[Row]:
    """The share of seeds with the right first Betti number."""
    spaces: dict[str, tuple[Callable[[int], np.ndarray], int]] = {
        "sphere": (lambda seed: SPHERE.sample(n, seed=seed), 0),
        "torus": (lambda seed: TORUS.sample(n, seed=seed), 2),
        "genus 2": (lambda seed: genus_two(n, seed), 4),
        "flat torus in R^4": (lambda seed: FLAT.sample(n, seed=seed), 2),
        "Swiss roll (2 parallel fields: natural condition)": (
            lambda seed: tb.manifolds.SwissRoll().sample(n, seed=seed),
            2,
        ),
    }
    rows = []
    for name, (sample, number) in spaces.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tb.errors.AccuracyWarning)
            right = [
                betti_number(tb.TangentBundle.from_points(sample(seed), dim=2), most=8) == number
                for seed in range(seeds)
            ]
        rows.append(
            row(f"share of {seeds} seeds with the right Betti number", name, n, np.mean(right), "1")
        )
    return rows


def curvature(n: int = 20_000) -> list[Row]:
    rows = []
    axes = np.array(ELLIPSOID.axes)
    for name, manifold, euler in (("torus", TORUS, 0), ("ellipsoid", ELLIPSOID, 2)):
        points = manifold.sample(n, seed=0)
        if manifold is TORUS:
            theta = TORUS.angles(points)[0]
            exact = np.cos(theta) / (0.4 * (1 + 0.4 * np.cos(theta)))
        else:
            exact = 1 / (axes.prod() * (points**2 / axes**4).sum(1)) ** 2
        bundle = tb.TangentBundle.from_points(points)
        found = bundle.curvature().gaussian
        rows.append(
            row(
                "Gaussian curvature",
                name,
                n,
                np.abs(found - exact).mean() / np.abs(exact).max(),
                "0.05 of largest",
            )
        )
        masses = bundle.cloud.in_user_order(bundle.sorted_masses()).numpy()
        area = masses * bundle.weights.kernel.moment(0, 2) * bundle.eps
        rows.append(
            row(
                "Gauss-Bonnet, error over 4 pi",
                name,
                n,
                abs(area @ found / (4 * np.pi) - euler / 2),
                "0.02",
            )
        )
    return rows


def torus_parts(points: np.ndarray) -> list[np.ndarray]:
    """A gradient, a rotated gradient and a harmonic field of the torus, of one norm."""
    theta, phi = TORUS.angles(points)
    rho = (1 + 0.4 * np.cos(theta))[:, None]
    along = np.stack([-np.sin(phi), np.cos(phi), 0 * phi], axis=1)
    around = np.stack(
        [-np.sin(theta) * np.cos(phi), -np.sin(theta) * np.sin(phi), np.cos(theta)], axis=1
    )
    s, c, both = (
        np.sin(phi) * np.sin(theta),
        np.cos(phi) * np.cos(theta),
        np.cos(phi + theta)[:, None],
    )
    gradient = -s[:, None] / rho * along + c[:, None] / 0.4 * around
    rotated = np.cross(np.cross(along, around), both / rho * along + both / 0.4 * around)
    return [
        part / np.linalg.norm(part) for part in (gradient, rotated, (along + 0.5 * around) / rho)
    ]


def decomposition(n: int = 20_000, neighbors: int | None = None, device: str = "cpu") -> list[Row]:
    points = TORUS.sample(n, seed=0)
    started = time.perf_counter()
    bundle = tb.TangentBundle.from_points(
        torch.from_numpy(points).to(device), dim=2, neighbors=neighbors
    )
    built = time.perf_counter() - started
    exact = [
        bundle.to_coordinates(torch.from_numpy(part).to(device)) for part in torus_parts(points)
    ]
    started = time.perf_counter()
    found = tb.helmholtz(bundle, sum(exact))
    if device != "cpu":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    parts = torch.stack([found.gradient, found.rotational, found.remainder])[..., 0].cpu()
    rows = [
        row(
            f"decomposition: {name} part",
            "torus",
            n,
            error(part.numpy(), true[..., 0].cpu().numpy()),
            "0.03",
        )
        for name, part, true in zip(
            ("gradient", "rotational", "harmonic (remainder)"), parts, exact, strict=True
        )
    ]
    gram = torch.einsum("n,and,bnd->ab", bundle.gradient().mass.cpu(), parts, parts)
    overlap = (gram - gram.diag().diag()).abs().max() / gram.diag().min()
    rows.append(row("decomposition: overlap of parts", "torus", n, overlap, "1e-6"))
    rows.append(row("decomposition: seconds, bundle excluded", device, n, seconds))
    rows.append(row("decomposition: seconds of the bundle", device, n, built))
    return rows


def large(n: int = 1_000_000, device: str = "cpu") -> list[Row]:
    """The same at a size where neighbours are limited to 40; also the peak of memory."""
    rows = decomposition(n, neighbors=40, device=device)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [*rows, row("decomposition: GB of memory, everything", device, n, memory, "8")]


def harmonic_wind(
    lat: np.ndarray, lon: np.ndarray, degree: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wind (n, 2, 1) of two random spherical harmonics of a degree, its divergence and its
    vorticity."""
    rng, phi = np.random.default_rng(degree), np.radians(lon)
    theta = np.clip(np.radians(90 - lat), 1e-7, np.pi - 1e-7)
    slopes = []
    for _ in range(2):
        f = east = north = np.zeros_like(phi)
        for m in range(degree + 1):
            factor = rng.standard_normal() + 1j * rng.standard_normal()
            value, slope = sph_harm_y(degree, m, theta, phi, diff_n=1)
            f, north = f + (factor * value).real, north - (factor * slope[..., 0]).real
            east = east + (factor * slope[..., 1]).real / np.sin(theta)
        slopes.append((-degree * (degree + 1) * f, east, north))
    (divergence, ae, an), (vorticity, be, bn) = slopes
    return np.stack([ae - bn, an + be], axis=1)[:, :, None], divergence, vorticity


def harmonics(degrees: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15)) -> list[Row]:
    """Divergence and vorticity of harmonic winds, on a grid and on scattered points, by quadratic
    and default fits."""
    lat, lon = np.meshgrid(np.linspace(-90, 90, 73), np.arange(0, 360, 2.5), indexing="ij")
    rng = np.random.default_rng(0)
    scattered = np.degrees(np.arcsin(rng.uniform(-1, 1, 10_000))), rng.uniform(0, 360, 10_000)
    rows = []
    for name, (lats, lons) in (
        ("2.5 degree grid", (lat.ravel(), lon.ravel())),
        ("random points", scattered),
    ):
        bundle = tb.TangentBundle.from_latlon(lats, lons)
        weights = np.cos(np.radians(lats)) if "grid" in name else np.ones_like(lats)
        for fit in (2, None):  # the default is 3 here
            calculus = Derivatives(bundle, degree=fit)
            maps = calculus.divergence(), calculus.curl()
            for degree in degrees:
                wind, *exact = harmonic_wind(lats, lons, degree)
                errors = [
                    error((m @ wind)[:, 0, 0], e, weights) for m, e in zip(maps, exact, strict=True)
                ]
                asked = "0.03" if "grid" in name and fit is None and degree <= 10 else ""
                what = f"divergence and vorticity, harmonics of degree {degree}"
                rows.append(
                    row(
                        what,
                        f"{name}, fit of degree {calculus.degree}",
                        len(lats),
                        max(errors),
                        asked,
                    )
                )
    return rows


PARTS = (
    derivatives,
    build,
    curl_of_gradients,
    spectra,
    curvature,
    decomposition,
    betti,
    harmonics,
)


def run() -> list[Row]:
    """All parts but ``large``."""
    rows = []
    for part in PARTS:
        rows += part()
    return rows
