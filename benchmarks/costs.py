"""What each method costs on data of a usual size, for the page that helps to choose one.

Processor time, which other programs on the machine change little, after a first small call that
compiles the kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr

import tangentbundle as tb
from harness.records import Row

Work = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A method, the data it is measured on, and the work itself, as large and as a small first
    call."""

    method: str
    data: str
    work: Work
    warm_up: Work


def noisy_torus(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of a torus and a noisy field."""
    torus = tb.manifolds.Torus()
    points = torus.sample(n, seed=0)
    noise = np.random.default_rng(1).standard_normal(points.shape)
    return points, torus.tangent_field(points) + 0.3 * noise


def denoising(n: int) -> Case:
    def work(count: int) -> object:
        points, vectors = noisy_torus(count)
        return tb.FieldDenoiser().fit(points, vectors).predict(points)

    return Case("FieldDenoiser", f"{n} points", lambda: work(n), lambda: work(100))


def interpolation() -> Case:
    wind = tb.datasets.load_wind()
    at = wind.sample(200, rng=0)

    def work(step: int) -> object:
        rows = at[::step]
        model = tb.FieldInterpolator(manifold=tb.earth.Earth())
        model.fit(wind.points[rows], wind.ambient[0][rows])
        return model.predict(wind.points, return_std=True)

    data = f"{len(at)} stations to {len(wind.points)} places"
    return Case("FieldInterpolator", data, lambda: work(1), lambda: work(4))


def forecasting() -> Case:
    wind = tb.datasets.load_wind()
    few = wind.at(wind.sample(100, rng=0))

    def work() -> object:
        forecaster = tb.FieldForecaster(period=12)
        forecaster.fit(few.points, few.ambient[:96], times=few.times[:96])
        return forecaster.predict(few.ambient[60:96], 12, times=few.times[60:96])

    return Case("FieldForecaster", f"{len(few.points)} points, 96 times", work, work)


def heat(n: int) -> Iterator[Case]:
    points, vectors = noisy_torus(n)
    bundle = tb.TangentBundle.from_points(points, dim=2)
    laplacian = bundle.laplacian()
    signal = bundle.to_coordinates(vectors)

    def build() -> object:
        return tb.TangentBundle.from_points(points, dim=2).laplacian()

    def smooth() -> object:
        return tb.Heat(0.0005)(laplacian, signal)

    yield Case("from_points, laplacian", f"{n} points", build, build)
    yield Case("Heat", f"{n} points", smooth, smooth)


def grid(step: float) -> xr.Dataset:
    """A wind on latitudes and longitudes."""
    ds = xr.Dataset(coords={"lat": np.arange(90, -91, -step), "lon": np.arange(0, 360, step)})
    ds["u"] = np.cos(np.radians(ds.lat)) + 0 * ds.lon
    ds["v"] = 0 * ds.lat + np.sin(np.radians(ds.lon))
    return ds


def gridded() -> Iterator[Case]:
    degree, coarse = grid(1.0), grid(2.5)

    def smooth() -> object:
        return tb.earth.smooth(degree, "1000 km")

    def regrid() -> object:
        return tb.earth.Regridder(coarse, degree)(coarse)

    def decompose() -> object:
        return tb.earth.decompose(coarse)

    yield Case("earth.smooth", "1 degree to 1 000 km", smooth, smooth)
    yield Case("earth.Regridder", "2.5 degrees to 1 degree", regrid, regrid)
    yield Case("earth.decompose", "2.5 degrees", decompose, decompose)


def geometry(n: int) -> Iterator[Case]:
    points = noisy_torus(n)[0]
    vectors = tb.manifolds.Torus().tangent_field(points)

    def parts() -> object:
        bundle = tb.TangentBundle.from_points(points, dim=2)
        return tb.helmholtz(bundle, bundle.to_coordinates(vectors))

    def distance() -> object:
        return tb.TangentBundle.from_points(points, dim=2).distance([0])

    yield Case("helmholtz", f"{n} points", parts, parts)
    yield Case("distance", f"{n} points, one source", distance, distance)


def classification() -> Case:
    torus, sphere = tb.manifolds.Torus(0.7, 0.3), tb.manifolds.Sphere(2)
    clouds = [(torus, sphere)[k % 2].sample(100, seed=k) for k in range(60)]
    labels = ["torus" if k % 2 == 0 else "sphere" for k in range(60)]

    def work(count: int, epochs: int) -> object:
        classifier = tb.ManifoldClassifier(epochs=epochs, random_state=0)
        return classifier.fit(clouds[:count], labels[:count])

    data = "60 clouds of 100 points, 50 epochs"
    return Case("ManifoldClassifier", data, lambda: work(60, 50), lambda: work(30, 2))


def training() -> Case:
    points = torch.from_numpy(tb.manifolds.Sphere(2).sample(400, seed=0)).float()
    laplacian = tb.TangentBundle.from_points(points, dim=2).laplacian()
    fields = torch.randn(20, 400, 2, 1, generator=torch.Generator().manual_seed(0))
    target = tb.Heat(0.2)(laplacian, fields)

    def work(epochs: int) -> object:
        net = tb.nn.TNN([1, 8, 1], taps=3, step=0.1, seed=0)
        return tb.fit(net, [(fields, laplacian, target)], epochs=epochs, progress=False)

    data = "20 fields on 400 points, 100 epochs"
    return Case("nn.TNN, fit", data, lambda: work(100), lambda: work(2))


def learned_sheaf() -> Case:
    rng = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 500, (2, 2500), generator=rng)
    edges = torch.unique(edges.sort(dim=0).values[:, edges[0] != edges[1]], dim=1)
    features = torch.randn(500, 16, generator=rng)
    labels = torch.randint(0, 3, (500,), generator=rng)

    def work(epochs: int) -> None:
        torch.manual_seed(0)
        net = tb.nn.SheafDiffusion(16, 8, 3, tb.nn.SheafLearner(2, tb.nn.Cayley()), layers=2)
        adam = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(epochs):
            adam.zero_grad()
            torch.nn.functional.cross_entropy(net(features, edges), labels).backward()
            adam.step()

    data = f"500 nodes, {edges.shape[1]} edges, 100 epochs"
    return Case("nn.SheafDiffusion", data, lambda: work(100), lambda: work(2))


def cases() -> Iterator[Case]:
    """All methods of the page, in its order."""
    yield denoising(500)
    yield denoising(2000)
    yield interpolation()
    yield forecasting()
    yield from heat(40_000)
    yield from gridded()
    yield from geometry(5000)
    yield classification()
    yield training()
    yield learned_sheaf()


def processor_seconds(work: Work) -> float:
    """Processor time of this process, on all of its threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def run(repeats: int = 2) -> list[Row]:
    """Least processor time of each method."""
    rows = []
    for case in cases():
        case.warm_up()
        seconds = min(processor_seconds(case.work) for _ in range(repeats))
        rows.append({"method": case.method, "data": case.data, "processor_seconds": seconds})
    return rows
