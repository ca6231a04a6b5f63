"""Meshes with a boundary: surfaces of revolution against their equation in one variable, and small
bends of a plane."""

import numpy as np
import pytest
from scipy.linalg import eigh_tridiagonal
from scipy.spatial import Delaunay
from test_known_frames import icosphere

from tangentbundle import TangentBundle


class Profile:
    """A surface of revolution: distance ``radius(s)`` from the axis and height ``z(s)``, at arc
    length s from below.

    ``slope`` is the derivative of the radius.
    """

    def __init__(self, length, radius, z, slope):
        self.length = length
        self.radius = radius
        self.z = z
        self.slope = slope

    @classmethod
    def cap(cls, angle):
        """The points of the unit sphere within an angle of the pole; a hemisphere for a right
        angle."""
        return cls(angle, np.sin, np.cos, np.cos)

    @classmethod
    def paraboloid(cls, amplitude):
        """The graph of ``amplitude * rho**2`` over the unit disc; flat for 0."""
        rho = np.linspace(0, 1, 4001)
        middle = (rho[1:] + rho[:-1]) / 2
        arc = np.append(0.0, np.cumsum(np.sqrt(1 + (2 * amplitude * middle) ** 2) * np.diff(rho)))

        def radius(s):
            return np.interp(s, arc, rho)

        return cls(
            arc[-1],
            radius,
            lambda s: amplitude * radius(s) ** 2,
            lambda s: 1 / np.sqrt(1 + (2 * amplitude * radius(s)) ** 2),
        )

    @classmethod
    def cone(cls, slope, inner=0.4, length=1.0):
        """A cone without its tip, a cylinder for slope 0, a flat ring for slope 1."""
        return cls(
            length,
            lambda s: inner + slope * s,
            lambda s: np.sqrt(1 - slope**2) * s,
            lambda s: slope + 0 * s,
        )

    def eigenvalues(self, count, cells=600):
        """The lowest eigenvalues for fields that are free at the boundary, each twice as on every
        oriented surface.

        Fields ``f(s) exp(i m phi)`` in the axes along and across meridians have the energy density
        ``f'(s)**2 + (m - r')**2 / r**2 f**2``.
        """
        step = self.length / cells
        s = (np.arange(cells) + 0.5) * step
        volume = self.radius(s) * step
        flux = self.radius(np.arange(1, cells) * step) / step
        outflow = np.append(flux, 0.0) + np.append(0.0, flux)
        lowest = []
        for m in range(-8, 9):
            turning = ((m - self.slope(s)) / self.radius(s)) ** 2
            diagonal = outflow / volume + turning
            beside = -flux / np.sqrt(volume[1:] * volume[:-1])
            lowest.append(eigh_tridiagonal(diagonal, beside, select="i", select_range=(0, 6))[0])
        return np.repeat(np.sort(np.concatenate(lowest)), 2)[:count]

    def vertices(self, s, phi):
        r = self.radius(s)
        return np.stack([r * np.cos(phi), r * np.sin(phi), self.z(s)], axis=1)


def disc_with_smooth_rim(rings):
    """The unit disc by rings of 6, 12, 18, ... points."""
    around = [np.arange(6 * k) * 2 * np.pi / (6 * k) + 0.1 * k for k in range(1, rings + 1)]
    phi = np.concatenate([[0.0], *around])
    rho = np.concatenate([[0.0], *(np.full(6 * k, k / rings) for k in range(1, rings + 1))])
    xy = rho[:, None] * np.stack([np.cos(phi), np.sin(phi)], axis=1)
    return xy, Delaunay(xy).simplices


def disc_with_jagged_rim(rings, seed=0):
    """Points of a square grid, shifted at random, in the unit disc: the rim is a staircase."""
    step = 1.0 / rings
    rng = np.random.default_rng(seed)
    grid = np.mgrid[-rings - 1 : rings + 2, -rings - 1 : rings + 2].reshape(2, -1).T * step
    xy = grid[np.hypot(*grid.T) <= 1.0 + 1e-9]
    xy = xy + 0.15 * step * rng.uniform(-1, 1, xy.shape)
    faces = Delaunay(xy).simplices
    sides = np.linalg.norm(xy[faces] - xy[np.roll(faces, 1, axis=1)], axis=2)
    faces = faces[sides.max(axis=1) < 1.9 * step]
    used, faces = np.unique(faces, return_inverse=True)
    return xy[used], faces.reshape(-1, 3)


def band(rings, profile):
    """A surface with two rims: circles of equally many points, shifted against each other."""
    around = max(
        8, int(2 * np.pi * profile.radius(np.array(profile.length / 2)) * rings / profile.length)
    )
    i, j = np.mgrid[: rings + 1, :around]
    s = (i * profile.length / rings).ravel()
    phi = ((j + 0.5 * i) * 2 * np.pi / around).ravel()
    lower, upper = np.mgrid[:rings, :around]
    here = (lower * around + upper).ravel()
    beside = (lower * around + (upper + 1) % around).ravel()
    above = here + around
    before = (lower + 1) * around + (upper - 1).ravel().reshape(lower.shape) % around
    faces = np.concatenate(
        [np.stack([here, beside, above], 1), np.stack([here, above, before.ravel()], 1)]
    )
    return profile.vertices(s, phi), faces


def disc(rings, profile, pattern):
    xy, faces = pattern(rings)
    s = np.minimum(np.hypot(*xy.T), 1.03) * profile.length
    return profile.vertices(s, np.arctan2(*xy.T[::-1])), faces


CAPS = [Profile.cap(angle) for angle in (0.05, 0.2, 0.5, 1.0, np.pi / 2, 2.2)]
PARABOLOIDS = [Profile.paraboloid(amplitude) for amplitude in (0.0, 0.001, 0.01, 0.1, 0.5, 1.0)]
BANDS = [Profile.cone(slope) for slope in (0.0, 0.02, 0.3, 0.7, 0.98, 1.0)]


def eigenvalues(vertices, faces, count=10):
    return TangentBundle.from_mesh(vertices, faces).laplacian().spectrum(count)[0]


def assert_near(vertices, faces, profile, share):
    values = eigenvalues(vertices, faces)
    np.testing.assert_allclose(
        values, profile.eigenvalues(10), rtol=share, atol=1e-8 / profile.length**2
    )


@pytest.mark.parametrize("rings", [10, 20])
@pytest.mark.parametrize("profile", CAPS + PARABOLOIDS)
def test_surfaces_with_one_rim(profile, rings):
    """Errors fall with the square of the edge length; those of a staircase with its steps."""
    assert_near(*disc(rings, profile, disc_with_smooth_rim), profile, 0.05 * (10 / rings) ** 2)
    assert_near(*disc(rings, profile, disc_with_jagged_rim), profile, 0.2 * 10 / rings)


@pytest.mark.parametrize("rings", [10, 20])
@pytest.mark.parametrize("profile", BANDS)
def test_surfaces_with_two_rims(profile, rings):
    assert_near(*band(rings, profile), profile, 0.04 * (10 / rings) ** 2)


def bowl_with_slivers_at_the_rim(amplitude, seed):
    """Random points of a paraboloid over the unit disc, with a rim that leans in and out: its
    triangles have obtuse angles."""
    rng = np.random.default_rng(seed)
    radius = np.sqrt(rng.uniform(0, 1, 400))
    angle = rng.uniform(0, 2 * np.pi, 400)
    rim_radius = 1 - 1e-3 * rng.uniform(size=60)
    rim_angle = rng.uniform(0, 2 * np.pi, 60)
    rho = np.append(radius, rim_radius)
    phi = np.append(angle, rim_angle)
    xy = rho[:, None] * np.stack([np.cos(phi), np.sin(phi)], axis=1)
    return np.column_stack([xy, amplitude * rho**2]), Delaunay(xy).simplices


def test_slivers_at_the_rim_do_not_stiffen_fields():
    """The energy is that of the surface, with all its negative cotangents."""
    profile = Profile.paraboloid(0.1)
    exact = profile.eigenvalues(6)
    values = np.stack(
        [eigenvalues(*bowl_with_slivers_at_the_rim(0.1, seed), 6) for seed in range(8)]
    )
    assert (values >= 0).all()
    assert (np.abs(values.mean(axis=0) - exact) <= 0.006 * exact + 1e-4).all()


BENDS = {
    "saddle": lambda x, y: x**2 - y**2,
    "waves": lambda x, y: np.sin(2 * x) * np.cos(3 * y + 1),
    "bump at the rim": lambda x, y: np.exp(-8 * ((x - 0.7) ** 2 + y**2)),
    "steep towards the rim": lambda x, y: (x**2 + y**2) ** 2,
}


@pytest.mark.parametrize("pattern", [disc_with_smooth_rim, disc_with_jagged_rim])
@pytest.mark.parametrize("bend", BENDS)
def test_eigenvalues_are_continuous_in_the_amplitude(bend, pattern):
    """Lengths change by the square of the amplitude, and so do eigenvalues."""
    xy, faces = pattern(9)
    height = BENDS[bend](*xy.T)
    flat = eigenvalues(np.column_stack([xy, 0 * height]), faces)
    assert flat[1] < 1e-9
    for amplitude in (1e-8, 1e-5, 1e-3, 1e-2, 0.03, 0.1):
        values = eigenvalues(np.column_stack([xy, amplitude * height]), faces)
        assert (np.abs(values - flat) <= 20 * amplitude**2 * (1 + flat) + 1e-9).all()


def test_meshes_and_clouds_agree_up_to_the_rim():
    """A surface without symmetries: smooth rim, jagged rim, finer meshes, and points without
    triangles."""

    def surface(xy):
        x, y = xy.T
        return np.column_stack([xy, 0.4 * x**2 - 0.3 * y**2 + 0.1 * np.sin(3 * x + y)])

    fine_xy, fine_faces = disc_with_smooth_rim(30)
    fine = eigenvalues(surface(fine_xy), fine_faces, 8)
    for pattern, share in ((disc_with_smooth_rim, 0.04), (disc_with_jagged_rim, 0.15)):
        xy, faces = pattern(14)
        np.testing.assert_allclose(eigenvalues(surface(xy), faces, 8), fine, rtol=share)
    rng = np.random.default_rng(0)
    radius = np.sqrt(rng.uniform(size=3000))
    angle = rng.uniform(0, 2 * np.pi, 3000)
    points = surface(np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]))
    cloud = TangentBundle.from_points(points, dim=2, neighbors=25).laplacian().spectrum(8)[0]
    np.testing.assert_allclose(cloud, fine, rtol=0.25)


def subdivided(vertices, faces):
    """Each triangle as four; the surface stays the same."""
    sides = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    edges, number = np.unique(sides, axis=0, return_inverse=True)
    between = len(vertices) + number.reshape(3, -1).T
    parts = [np.stack([faces[:, k], between[:, k], between[:, k - 1]], axis=1) for k in range(3)]
    return np.concatenate([vertices, vertices[edges].mean(axis=1)]), np.concatenate(
        [*parts, between]
    )


def torn_sphere(seed):
    """A sphere of triangles, without some of them: holes of all sizes with rough rims."""
    vertices, faces = icosphere(3)
    rng = np.random.default_rng(seed)
    hole_centers = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    radii = rng.uniform(0.15, 0.5, 3)
    inside = (np.linalg.norm(vertices[:, None] - hole_centers, axis=2) < radii).any(axis=1)
    used, rest = np.unique(faces[~inside[faces].any(axis=1)], return_inverse=True)
    return vertices[used], rest.reshape(-1, 3)


@pytest.mark.parametrize("seed", range(3))
def test_holes_in_a_surface_turn_no_vectors(seed):
    """The eigenvalues of a surface with holes settle as its triangles are divided."""
    mesh = torn_sphere(seed)
    coarse = eigenvalues(*mesh)
    fine = eigenvalues(*subdivided(*mesh))
    np.testing.assert_allclose(coarse, fine, rtol=0.06)
    assert fine[0] < 1  # less than on the sphere without holes
