"""Covariances against a double loop over points, and the symmetries and derivatives they claim to
have."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.special import gamma, kv

from tangentbundle.earth.covariances import Meridional, Zonal, planetary
from tangentbundle.errors import InvalidInputError
from tangentbundle.estimators import (
    Ambient,
    Coordinates,
    CurlFree,
    DivergenceFree,
    Matern,
    Tangent,
    helmholtz_covariance,
)
from tangentbundle.estimators.covariance import NOISE, CovarianceSum, Role
from tangentbundle.estimators.empirical import (
    ChangeOfMean,
    Displaced,
    Empirical,
    from_history,
    gaspari_cohn,
)
from tangentbundle.estimators.history import recolored
from tangentbundle.estimators.likelihood import (
    Evidence,
    ParameterPosterior,
    Prior,
    PureNoise,
    as_matrices,
    values_and_noise,
)
from tangentbundle.estimators.sites import Pairs, PastAtSites, Sites
from tangentbundle.manifolds import Sphere

QUARTER_TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
SMOOTH = [Matern(2.5), Matern(np.inf)]

TANGENT = [
    *(Tangent(Matern(smoothness)) for smoothness in (0.5, 1.5, 2.5, np.inf)),
    *(CurlFree(kernel) for kernel in SMOOTH),
    *(DivergenceFree(kernel) for kernel in SMOOTH),
    Empirical(),
    Displaced(),
    ChangeOfMean(),
    Zonal(),
    Meridional(),
    helmholtz_covariance(),
    planetary(),
    from_history(helmholtz_covariance()),
]
AMBIENT = [
    *(Ambient(Matern(smoothness)) for smoothness in (0.5, 1.5, 2.5, np.inf)),
    *(CurlFree(kernel, ambient=True) for kernel in SMOOTH),
    *(DivergenceFree(kernel, ambient=True) for kernel in SMOOTH),
    Empirical(ambient=True),
    Displaced(ambient=True),
    ChangeOfMean(ambient=True),
    Ambient() + Ambient(Matern(0.5)),
    Ambient() + CurlFree(ambient=True),
    from_history(Ambient()),
    from_history(Ambient(directions=Coordinates())),
    from_history(DivergenceFree(ambient=True)),
]
CASES = [(covariance, 3, 2) for covariance in TANGENT] + [
    (covariance, 3, p) for covariance in AMBIENT for p in (2, 3)
]
CASES += [(covariance, 5, 2) for covariance in (*TANGENT[:8], *AMBIENT[:8])]
CASES += [(covariance, 2, 1) for covariance in (Tangent(), CurlFree(), Ambient())]
CASES += [
    (DivergenceFree(ambient=True), 2, 1)
]  # last: any field, as on a line no other is without divergence
cases = pytest.mark.parametrize(("covariance", "D", "p"), CASES, ids=str)


def random_sites(ambient, D, p, n=7, seed=0):
    """Any points with any orthonormal bases, and a history of any values."""
    rng = np.random.default_rng(seed)
    points, anomalies = rng.standard_normal((n, D)), rng.standard_normal((n, p, 9))
    fixed = np.random.default_rng(99)  # what all sets of sites share
    axes = np.linalg.qr(fixed.standard_normal((D, D)))[0]
    bases = axes[:, -p:] if ambient else np.linalg.qr(rng.standard_normal((n, D, p)))[0]
    arrays = points, bases, points @ axes[:, : min(3, D)]
    mean = rng.standard_normal((n, p))
    displaced = recolored(rng.standard_normal((n, p, 25)), anomalies)
    past = PastAtSites(*map(torch.from_numpy, (mean, anomalies, displaced)))
    return Sites(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays), past)


def past_changed(change, *pasts):
    """What a function makes of the mean, of the anomalies and of the displaced ones."""
    names = ("mean", "anomalies", "displaced")
    return PastAtSites(*(change(*(getattr(past, name) for past in pasts)) for name in names))


def start(covariance, D, p, seed=1):
    """Parameters that are all different."""
    starts = np.array([parameter.start for parameter in covariance.parameters(D, p)])
    factors = np.exp(0.3 * np.random.default_rng(seed).standard_normal(len(starts)))
    return torch.from_numpy(starts * factors)


def full(covariance, theta, a, b):
    """Blocks ``(n, m, p, p)``, with the zeros between independent components."""
    blocks = covariance(theta, Pairs(a, b))
    if covariance.independent:
        return torch.diag_embed(blocks.movedim(-3, -1))
    return blocks.movedim((-3, -1, -4, -2), (-4, -3, -2, -1))


# The same in a few lines for two points: x, y, bases B, C, principal coordinates, past.


@dataclass
class Site:
    x: np.ndarray
    B: np.ndarray
    principal: np.ndarray
    mean: np.ndarray
    anomalies: np.ndarray
    displaced: np.ndarray


def site(sites, i):
    bases = sites.bases if sites.bases.ndim == 2 else sites.bases[i]
    past = sites.past
    own_past = past.mean[i], past.anomalies[i], past.displaced[i]
    tensors = sites.points[i], bases, sites.principal[i], *own_past
    return Site(*(tensor.numpy() for tensor in tensors))


def matern(r, smoothness):
    if smoothness == np.inf:
        return np.exp(-(r**2) / 2)
    s = np.sqrt(2 * smoothness) * max(r, 1e-12)
    return 2 ** (1 - smoothness) / gamma(smoothness) * s**smoothness * kv(smoothness, s)


def negative_hessian(k, delta, h=1e-3):
    """Of a function of space, by differences of the fourth order."""
    D = len(delta)
    weights = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
    steps = [(i, j, wi * wj) for i, wi in weights.items() for j, wj in weights.items()]
    eye = h * np.eye(D)
    return (
        -np.array(
            [
                [sum(w * k(delta + i * eye[p] + j * eye[q]) for i, j, w in steps) for q in range(D)]
                for p in range(D)
            ]
        )
        / h**2
    )


def gradients(covariance, theta, a, b):
    """The covariance of the gradient of a random function, of size one at zero distance."""
    delta, P = a.x - b.x, a.B @ a.B.T
    metric = np.eye(len(delta)) / theta[1] ** 2
    if covariance.ambient:
        metric = P / theta[1] ** 2 + (np.eye(len(P)) - P) / theta[2] ** 2
    smoothness = covariance.kernel.smoothness
    at_zero = 1.0 if smoothness == np.inf else 5 / 3
    hessian = metric * at_zero
    if np.linalg.norm(delta) > 0:
        hessian = negative_hessian(lambda d: matern(np.sqrt(d @ metric @ d), smoothness), delta)
    return theta[0] ** 2 * theta[1] ** 2 * hessian / at_zero


def block(covariance, theta, a, b):
    """``B^T K(x, y) C``, by definition."""
    if isinstance(covariance, CovarianceSum):
        sizes = [len(term.parameters(*a.B.shape)) for term in covariance.terms]
        parts = np.split(theta, np.cumsum(sizes)[:-1])
        return sum(
            block(term, part, a, b) for term, part in zip(covariance.terms, parts, strict=True)
        )
    p, r = a.B.shape[1], np.linalg.norm(a.x - b.x)
    if isinstance(covariance, Ambient):
        parts = (a.principal - b.principal) ** 2
        if len(parts) < len(a.x):
            parts = np.append(parts, r**2 - parts.sum())
        k = matern(np.sqrt(parts @ theta[p:] ** -2.0), covariance.kernel.smoothness)
        return k * np.diag(theta[:p] ** 2)
    if isinstance(covariance, DivergenceFree) and not covariance.ambient:
        return QUARTER_TURN.T @ a.B.T @ gradients(covariance, theta, a, b) @ b.B @ QUARTER_TURN
    if isinstance(covariance, DivergenceFree):
        C = a.B.T @ gradients(covariance, theta, a, b) @ b.B
        return (np.trace(C) * np.eye(p) - C) / (p - 1)
    if isinstance(covariance, CurlFree):
        return a.B.T @ gradients(covariance, theta, a, b) @ b.B
    size = theta[0] ** 2
    if isinstance(covariance, Tangent):
        return size * matern(r / theta[1], covariance.kernel.smoothness) * a.B.T @ b.B
    if isinstance(covariance, Empirical):
        taper = float(gaspari_cohn(torch.tensor(r / theta[1])))
        return size * taper * a.anomalies @ b.anomalies.T / a.anomalies.shape[1]
    if isinstance(covariance, Displaced):
        taper = float(gaspari_cohn(torch.tensor(r / theta[1])))
        return size * taper * a.displaced @ b.displaced.T / a.displaced.shape[1]
    if isinstance(covariance, ChangeOfMean):
        return size * matern(r / theta[1], 1.5) * np.outer(a.mean, b.mean)
    axis = np.array([0.0, 0.0, 1.0])
    along = (a.x - b.x) @ axis
    across = np.sqrt(r**2 - along**2) if r > 0 else 0.0
    k = matern(np.hypot(along, across / (1 + theta[2])) / theta[1], 1.5)
    turn = QUARTER_TURN if isinstance(covariance, Zonal) else np.eye(2)
    return size * k * np.outer(turn.T @ a.B.T @ axis, turn.T @ b.B.T @ axis)


@pytest.mark.parametrize(("covariance", "D", "p"), CASES[:-1], ids=str)
def test_blocks_are_those_of_a_double_loop(covariance, D, p):
    a, b = (random_sites(covariance.ambient, D, p, n, seed) for n, seed in ((4, 0), (3, 1)))
    theta = start(covariance, D, p)
    got = full(covariance, theta, a, b).numpy()
    expected = [
        [block(covariance, theta.numpy(), site(a, i), site(b, j)) for j in range(3)]
        for i in range(4)
    ]
    np.testing.assert_allclose(got, expected, atol=1e-7 * np.abs(got).max())


@cases
def test_positive_symmetric_and_equal_to_its_diagonal(covariance, D, p):
    sites, theta = random_sites(covariance.ambient, D, p, 20), start(covariance, D, p)
    matrices = as_matrices(covariance(theta, Pairs(sites, sites)), covariance.independent)
    assert torch.allclose(matrices, matrices.mT, atol=1e-12)
    assert float(torch.linalg.eigvalsh(matrices).min()) > -1e-9 * float(matrices.abs().max())
    own = full(covariance, theta, sites, sites)[torch.arange(20), torch.arange(20)]
    assert torch.allclose(own, covariance.diagonal(theta, sites), atol=1e-6)


@cases
def test_batches_equal_single_sets(covariance, D, p):
    theta, sets = (
        start(covariance, D, p),
        [random_sites(covariance.ambient, D, p, 5, seed) for seed in range(3)],
    )
    names = ("points", "bases", "principal")
    stacks = {name: torch.stack([getattr(one, name) for one in sets]) for name in names}
    stacks["past"] = past_changed(lambda *parts: torch.stack(parts), *(one.past for one in sets))
    batch = Sites(**(stacks | ({"bases": sets[0].bases} if covariance.ambient else {})))
    together = full(covariance, theta, batch, batch)
    for number, one in enumerate(sets):
        alone = full(covariance, theta, one, one)
        assert torch.allclose(together[number], alone, atol=1e-12)
        assert torch.allclose(
            covariance.diagonal(theta, batch)[number], covariance.diagonal(theta, one)
        )


@cases
def test_rotations_of_space_change_nothing(covariance, D, p):
    """Of points and bases; bands of latitude are turned around their axis, the third."""
    theta, a = start(covariance, D, p), random_sites(covariance.ambient, D, p)
    turn, bands = (
        np.eye(D),
        D - 1 if "Zonal" in str(covariance) or "Meridional" in str(covariance) else D,
    )
    turn[:bands, :bands] = np.linalg.qr(np.random.default_rng(3).standard_normal((bands, bands)))[0]
    Q = torch.from_numpy(turn)
    b = Sites(a.points @ Q.T, Q @ a.bases, a.principal, a.past)
    expected = covariance(theta, Pairs(a, a))
    assert torch.allclose(covariance(theta, Pairs(b, b)), expected, atol=1e-10)


@pytest.mark.parametrize("covariance", TANGENT, ids=str)
def test_a_change_of_bases_changes_coordinates_alone(covariance):
    theta, a = start(covariance, 3, 2), random_sites(False, 3, 2)
    angles = torch.from_numpy(np.random.default_rng(4).uniform(0, 6, 7))
    Q = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], dim=1).reshape(
        7, 2, 2
    )
    past = past_changed(lambda part: (Q.mT @ part.reshape(7, 2, -1)).reshape(part.shape), a.past)
    b = Sites(a.points, a.bases @ Q, a.principal, past)
    expected = torch.einsum("nki,nmkl,mlj->nmij", Q, full(covariance, theta, a, a), Q)
    assert torch.allclose(full(covariance, theta, b, b), expected, atol=1e-10)


@cases
def test_the_gradient_of_the_likelihood_is_that_of_differences(covariance, D, p):
    sites = random_sites(covariance.ambient, D, p)
    values = np.random.default_rng(5).standard_normal((7, p, 2))
    density = ParameterPosterior(
        covariance=covariance,
        evidence=[Evidence(sites, torch.from_numpy(values))],
        pure_noise=PureNoise(6, 2.0),
        prior=Prior.of((*covariance.parameters(D, p), NOISE)),
    )
    point = np.array([*start(covariance, D, p).log().tolist(), -0.5])
    size = density.size
    gradient = size * density.loss_and_gradient(point)[1]
    h = 1e-5
    for number, unit in enumerate(h * np.eye(len(point))):
        up = size * density.loss(point + unit)
        down = size * density.loss(point - unit)
        assert (up - down) / (2 * h) == pytest.approx(gradient[number], rel=2e-3, abs=2e-3)
    assert density.loss(point) == pytest.approx(density.loss_and_gradient(point)[0])


@cases
def test_parameters_are_positive_and_have_names_and_roles(covariance, D, p):
    parameters = covariance.parameters(D, p)
    assert len({parameter.name for parameter in parameters}) == len(parameters)
    for parameter in parameters:
        assert parameter.start > 0 and isinstance(parameter.role, Role)
    variance = covariance.diagonal(
        torch.tensor([parameter.start for parameter in parameters], dtype=torch.float64),
        random_sites(covariance.ambient, D, p),
    )
    assert torch.isfinite(variance).all()


@pytest.mark.parametrize("D", [2, 3, 4])
@pytest.mark.parametrize("kernel", SMOOTH, ids=str)
@pytest.mark.parametrize("kind", [CurlFree, DivergenceFree])
@pytest.mark.parametrize("ambient", [False, True])
def test_flows_of_flat_space_have_no_curl_or_no_divergence(kind, ambient, kernel, D):
    """The covariance with a fixed vector is such a field of the first point."""
    if kind is DivergenceFree and not ambient and D != 2:
        pytest.skip("tangent fields without divergence are those of surfaces")
    covariance, rng = kind(kernel, ambient), np.random.default_rng(0)
    theta, vector, h = start(covariance, D, D), rng.standard_normal(D), 1e-4
    points = rng.standard_normal((5, 1, 1, D)) + h * np.stack(
        [np.eye(D), -np.eye(D)]
    )  # (5, 2, D, D)
    eye = torch.eye(D, dtype=torch.float64)

    def sites(x):
        x = torch.from_numpy(x.reshape(-1, D))
        return Sites(x, eye if ambient else eye.expand(len(x), D, D), x[:, :3])

    field = full(covariance, theta, sites(points), sites(np.zeros(D)))[:, 0].numpy() @ vector
    up, down = np.moveaxis(field.reshape(5, 2, D, D), 1, 0)
    slopes = (up - down) / (2 * h)  # (5, by coordinate, component)
    size = np.abs(slopes).max()
    if kind is CurlFree:
        assert np.abs(slopes - slopes.swapaxes(1, 2)).max() < 1e-6 * size
    else:
        assert np.abs(np.trace(slopes, axis1=1, axis2=2)).max() < 1e-6 * size


def test_zonal_fields_go_around_the_axis_and_meridional_ones_along_it():
    sphere = Sphere(2)
    points = sphere.sample(30, seed=0)
    sites = Sites(*(torch.from_numpy(array) for array in (points, sphere.frames(points), points)))
    axis, bases = np.array([0.0, 0.0, 1.0]), sites.bases.numpy()
    theta = torch.tensor(
        [0.2, -0.5, 12.0], dtype=torch.float64
    ).exp()  # a stretch without end: bands
    k = [
        [np.exp(0.4) * matern(abs(x[2] - y[2]) * np.exp(0.5), 1.5) for y in points] for x in points
    ]
    along = axis - points * points[:, 2:]
    for covariance, field in ((Zonal(), np.cross(axis, points)), (Meridional(), along)):
        ambient = np.einsum(
            "nip,nmpq,mjq->nmij", bases, full(covariance, theta, sites, sites).numpy(), bases
        )
        np.testing.assert_allclose(ambient, np.einsum("nm,ni,mj->nmij", k, field, field), atol=1e-6)


def test_the_correlation_of_gaspari_and_cohn():
    """Smooth, ends at two, and positive definite in space."""
    z = torch.linspace(0, 2.5, 2001, dtype=torch.float64)
    values = gaspari_cohn(z)
    assert values[0] == 1 and (values[z >= 2] == 0).all()
    assert float(values.diff().diff().abs().max()) < 1e-5
    points = torch.from_numpy(np.random.default_rng(0).standard_normal((80, 3)))
    assert float(torch.linalg.eigvalsh(gaspari_cohn(torch.cdist(points, points))).min()) > 0


def tangent_density(sites, values, covariance=None, **bounds):
    """Of the parameters of a tangent covariance, given coordinates ``(n, p, c)``."""
    covariance = covariance or Tangent()
    parameters = (*covariance.parameters(sites.ambient_dim, sites.dim), NOISE)
    evidence = Evidence(sites, torch.from_numpy(np.ascontiguousarray(values)))
    return ParameterPosterior(covariance, [evidence], PureNoise(), Prior.of(parameters, **bounds))


def test_the_likelihood_finds_the_parameters_that_made_the_data():
    sphere, truth = Sphere(2), np.array([0.3, -0.6, -1.5])
    points = sphere.sample(120, seed=0)
    sites = Sites(*(torch.from_numpy(array) for array in (points, sphere.frames(points), points)))
    zeros = Evidence(sites, torch.zeros(120, 2, 1, dtype=torch.float64))
    values, noise = values_and_noise(truth)
    factor = torch.linalg.cholesky(zeros.matrices(Tangent()(values, zeros.pairs), False, noise))[0]
    drawn = factor @ torch.from_numpy(np.random.default_rng(0).standard_normal((240, 8)))
    density = tangent_density(sites, drawn.reshape(2, 120, 8).transpose(0, 1).numpy())
    assert np.abs(density.maximum() - truth).max() < 0.15


def test_likelihoods_of_several_patches_add_up():
    sites, other = random_sites(False, 3, 2, 6, 0), random_sites(False, 3, 2, 5, 1)
    rng = np.random.default_rng(0)
    first = tangent_density(sites, rng.standard_normal((6, 2, 1)))
    second = tangent_density(other, rng.standard_normal((5, 2, 1)))
    both = ParameterPosterior(
        Tangent(), [*first.evidence, *second.evidence], PureNoise(), first.prior
    )
    point = np.array([0.1, -0.4, -1.0])
    prior = first.prior.loss_and_gradient(point)[0]
    expected = sum(d.size * d.loss(point) - prior for d in (first, second)) + prior
    assert both.size * both.loss(point) == pytest.approx(expected)


def test_the_search_ends_where_the_density_is_stationary():
    """Also where its first steps lead to the bound of the noise."""
    sphere = Sphere(3)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        points = sphere.sample(160, seed=rng)
        frames = sphere.frames(points)
        waves, phases = rng.standard_normal((4, 50)) / 0.7, rng.uniform(0, 2 * np.pi, 50)
        field = np.einsum(
            "nij,ni->nj", frames, np.cos(points @ waves + phases) @ rng.standard_normal((50, 4))
        )
        noisy = field / np.sqrt(np.square(field).mean()) + 0.3 * rng.standard_normal(field.shape)
        arrays = (points, frames, points[:, :3])
        sites = Sites(*map(torch.from_numpy, map(np.ascontiguousarray, arrays)))
        density = tangent_density(
            sites, noisy[..., None], covariance=Tangent(Matern(np.inf)), max_noise=0.31
        )
        found = density.maximum()
        slope = density.loss_and_gradient(found)[1]
        if found[-1] >= np.log(0.31) - 1e-9:  # at the bound
            slope[-1] = max(slope[-1], 0.0)
        assert np.abs(slope).max() < 0.01


@pytest.mark.parametrize(
    "make",
    [
        lambda: Matern(2.0),
        lambda: CurlFree(Matern(1.5)),
        lambda: Tangent() + Ambient(),
        lambda: DivergenceFree().check(4, 3, True),
        lambda: helmholtz_covariance().check(3, 2, False),
        lambda: Zonal().check(3, 1, True),
        lambda: Zonal().check(4, 2, True),
    ],
)
def test_covariances_that_do_not_exist_are_refused(make):
    with pytest.raises(InvalidInputError):
        make()
