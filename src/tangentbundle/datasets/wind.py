"""Wind on the sphere: components, ambient vectors, samples of points and windows of time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import generator
from ..errors import InvalidInputError, ShapeError
from ..geometry.known_frames import latlon_frames
from .extras import extra
from .timeline import Times, Windows, regular, windows

if TYPE_CHECKING:
    import xarray

Index = slice | np.ndarray | list[int]


@dataclass(frozen=True, eq=False, repr=False)
class WindData:
    r"""Wind at n points of the unit sphere and T times.

    ``components`` ``(T, n, 2)`` are (eastward, northward), ``frames`` ``(n, 3, 2)`` the exact unit vectors east and
    north, and ``ambient`` ``(T, n, 3)`` the wind as vectors of R^3, tangent at ``points`` ``(n, 3)``:

    .. math:: v_i = O_i f_i, \qquad f_i = O_i^T v_i.

    Args:
        times: ``(T,)`` ascending dates.
        lat, lon: ``(n,)`` degrees.
        area: ``(n,)`` share of the sphere that each point stands for; sums to one.
        filled: ``(T,)``, true where an analysis was missing and was filled in: never score these.
        provenance: where the data came from and what was done to them.

    >>> from tangentbundle.datasets import load_wind
    >>> data = load_wind()                                       # the series inside the package
    >>> data
    WindData(132 times from 1982-01-16 to 1992-12-17, 0 filled, 2520 points)
    >>> data.ambient.shape, float(np.abs(np.einsum("tnd,nd->tn", data.ambient, data.points)).max()) < 1e-12
    ((132, 2520, 3), True)
    >>> some = data.at(data.sample(200, rng=0))                  # about 200 points, evenly over the sphere
    >>> some.windows(20).inputs.shape                            # m = 132 - 2 * 20 subsequences
    (92, 20)
    """

    times: Times
    lat: np.ndarray
    lon: np.ndarray
    components: np.ndarray
    area: np.ndarray
    provenance: str
    filled: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    def __post_init__(self) -> None:
        if not self.filled.size:
            object.__setattr__(self, "filled", np.zeros(len(self.times), bool))
        n = len(self.lat)
        expected = {
            "components": (len(self.times), n, 2),
            "lon": (n,),
            "area": (n,),
            "filled": (len(self.times),),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ShapeError(
                    f"{name} must have shape {shape} for {len(self.times)} times and {n} latitudes, "
                    f"got {getattr(self, name).shape}."
                )

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        days = f"{len(self)} times"
        if len(self):
            first, last = (self.times[i].astype("datetime64[D]") for i in (0, -1))
            days += f" from {first} to {last}"
        return f"WindData({days}, {int(self.filled.sum())} filled, {len(self.lat)} points)"

    # Geometry.

    @cached_property
    def _geometry(self) -> tuple[np.ndarray, np.ndarray]:
        points, frames, _ = latlon_frames(self.lat, self.lon)
        return points, frames

    @property
    def points(self) -> np.ndarray:
        """Points ``(n, 3)`` of the unit sphere."""
        return self._geometry[0]

    @property
    def frames(self) -> np.ndarray:
        """Unit vectors (east, north), ``(n, 3, 2)``. At a pole, those of its longitude, 0."""
        return self._geometry[1]

    @cached_property
    def ambient(self) -> np.ndarray:
        """The wind as vectors of R^3, ``(T, n, 3)``."""
        return np.einsum("nda,tna->tnd", self.frames, self.components)

    # Points.

    def at(self, indices: Index) -> WindData:
        """The wind at some of the points. Their areas are rescaled to sum to one.

        Draw points by area and these weights count area twice: the plain mean is then the mean over the sphere.
        """
        area = self.area[indices]
        return replace(
            self,
            lat=self.lat[indices],
            lon=self.lon[indices],
            components=self.components[:, indices],
            area=area / area.sum(),
        )

    def sample(self, n: float, rng: int | np.random.Generator | None = None, *, by_area: bool = True) -> np.ndarray:
        """Numbers of randomly kept points, ascending; n is the *expected* count, as in the paper.

        Each point is kept or not on its own, with a probability proportional to its area, or ``n / N`` for all N alike
        if not ``by_area``. A grid in latitude and longitude crowds at the poles: only the former is even on the sphere.

        >>> from tangentbundle.datasets import load_wind
        >>> data = load_wind()
        >>> for by_area in (True, False):
        ...     chosen = data.at(data.sample(1000, rng=0, by_area=by_area))
        ...     print(round(float(np.mean(np.abs(chosen.lat) > 60)), 2))     # the rows' share of the area: 0.11
        0.11
        0.26
        """
        weights = self.area if by_area else np.full(len(self.area), 1 / len(self.area))
        return np.flatnonzero(generator(rng).random(len(weights)) < inclusion(weights, n))

    # Times.

    def during(self, times: Index) -> WindData:
        """The wind at some of the times: a slice, numbers or a mask."""
        return replace(
            self, times=self.times[times], components=self.components[times], filled=self.filled[times].copy()
        )

    def segments(self) -> list[slice]:
        """Longest stretches of time without a gap, for ``during``.

        >>> from tangentbundle.datasets import load_wind
        >>> data = load_wind()
        >>> [len(data.during(s)) for s in data.segments()]
        [132]
        """
        return regular(self.times).segments()

    def windows(self, horizon: int) -> Windows:
        """Subsequences of twice the horizon T_f for forecasting: inputs, then targets.

        None straddles a gap; ``scored`` is false for targets that were filled in. A segment of N steps gives the
        paper's ``N - 2 T_f`` windows.

        >>> from tangentbundle.datasets import load_wind
        >>> data = load_wind()
        >>> w = data.windows(12)
        >>> data.components[w.inputs[0]].shape, data.components[w.targets[0]].shape, bool(w.scored.all())
        ((12, 2520, 2), (12, 2520, 2), True)
        """
        return windows(self.times, self.filled, horizon)

    @property
    def dataset(self) -> xarray.Dataset:
        """A CF dataset with dimensions (time, point), which ``load_wind`` reads back."""
        xarray = extra("xarray", "WindData.dataset")
        u, v = self.components[..., 0], self.components[..., 1]
        return xarray.Dataset(
            {
                "u": (("time", "point"), u, {"standard_name": "eastward_wind", "units": "m s-1"}),
                "v": (("time", "point"), v, {"standard_name": "northward_wind", "units": "m s-1"}),
            },
            coords={
                "time": ("time", self.times.astype("datetime64[ns]")),
                "lat": ("point", self.lat, {"standard_name": "latitude", "units": "degrees_north"}),
                "lon": ("point", self.lon, {"standard_name": "longitude", "units": "degrees_east"}),
                "area": ("point", self.area, {"standard_name": "cell_area", "units": "1"}),
                "filled": ("time", self.filled, {"long_name": "filled in, not observed"}),
            },
            attrs={"Conventions": "CF-1.8", "source": self.provenance},
        )


def inclusion(weights: np.ndarray, n: float) -> np.ndarray:
    """Probabilities proportional to the weights, at most one, whose sum is n.

    >>> inclusion(np.array([1.0, 1.0, 2.0, 4.0]), 2)
    array([0.25, 0.25, 0.5 , 1.  ])
    """
    if not 0 < n <= len(weights):
        raise InvalidInputError(f"the expected count must lie between 0 and the {len(weights)} points, got {n!r}.")
    sure = np.zeros(len(weights), bool)
    while True:
        rest = max(float(weights[~sure].sum()), 1e-300)
        p = np.where(sure, 1.0, (n - sure.sum()) * weights / rest)
        if not (p[~sure] > 1).any():
            return p
        sure |= p > 1
