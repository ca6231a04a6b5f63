"""Tensors of other devices and of ``torch.func`` are refused by name, never with torch's own
errors; the meta device stands for any other device."""

import itertools

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle.errors import DeviceError, InvalidInputError
from tangentbundle.estimators import SpectralFilter
from tangentbundle.manifolds import Sphere

POINTS = torch.from_numpy(Sphere(2).sample(80, seed=0))
VECTORS = torch.linalg.cross(POINTS, torch.tensor([[0.0, 0.0, 1.0]], dtype=POINTS.dtype))
NOISE = torch.full((80,), 0.1, dtype=POINTS.dtype)
MODELS = {
    "default": lambda: tb.FieldDenoiser(),
    "spectral": lambda: tb.FieldDenoiser(SpectralFilter()),
    "interpolator": lambda: tb.FieldInterpolator(),
}


def elsewhere(values, moved):
    return values.to("meta") if moved else values


@pytest.mark.parametrize("model", MODELS)
def test_estimators_name_inputs_on_other_devices(model):
    for moved in itertools.product([False, True], repeat=3):
        if not any(moved):
            continue
        inputs = [elsewhere(a, m) for a, m in zip((POINTS, VECTORS, NOISE), moved, strict=True)]
        with pytest.raises(DeviceError, match="meta") as caught:
            MODELS[model]().fit(*inputs)
        names = [n for n, m in zip(("points", "vectors", "noise_std"), moved, strict=True) if m]
        assert any(name in str(caught.value) for name in names), moved
        assert ("SpectralFilter" in str(caught.value)) <= (model == "default")
    fitted = MODELS[model]().fit(POINTS, VECTORS)
    with pytest.raises(DeviceError, match="points"):
        fitted.predict(POINTS.to("meta"))
    with pytest.raises(DeviceError, match="y is on the meta device"):
        fitted.score(POINTS, VECTORS.to("meta"))


BATCH = torch.zeros(80, dtype=torch.long)
FRAMES = torch.from_numpy(Sphere(2).frames(POINTS.numpy()))
CALLS = {
    "cloud": (lambda p: tb.TangentBundle.from_points(p, dim=2), (POINTS,)),
    "cloud of unknown dimension": (tb.TangentBundle.from_points, (POINTS,)),
    "frames": (tb.TangentBundle.from_frames, (POINTS, FRAMES)),
    "batch": (lambda p, b: tb.TangentBundle.from_batch(p, b, dim=2), (POINTS, BATCH)),
    "globe": (tb.TangentBundle.from_latlon, (90 * POINTS[:, 0], 180 * POINTS[:, 1])),
    "classifier": (
        lambda a, b: tb.ManifoldClassifier(epochs=1).fit([a, b, a, b], [0, 1, 0, 1]),
        (POINTS, 2 * POINTS),
    ),
    "forecaster": (
        lambda p, s: tb.FieldForecaster().fit(p, s),
        (POINTS, VECTORS.expand(20, -1, -1)),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_mixed_devices_are_refused(name):
    call, inputs = CALLS[name]
    for moved in itertools.product([False, True], repeat=len(inputs)):
        if any(moved):
            with pytest.raises(DeviceError):
                call(*(elsewhere(a, m) for a, m in zip(inputs, moved, strict=True)))


@pytest.fixture(scope="module")
def bundle():
    return tb.TangentBundle.from_points(POINTS, dim=2)


def total(result):
    return torch.as_tensor(result).square().sum()


def no_derivatives(bundle):
    """Functions of one tensor that have no derivative, with their names and arguments."""
    x = torch.ones(80, 2, 1, dtype=POINTS.dtype)
    return {
        "helmholtz": (lambda v: total(tb.helmholtz(bundle, v).remainder), x),
        "points": (lambda p: total(tb.TangentBundle.from_points(p, dim=2).laplacian() @ x), POINTS),
        "frames": (
            lambda f: total(tb.TangentBundle.from_frames(POINTS, f).laplacian() @ x),
            FRAMES,
        ),
        "denoiser": (lambda v: total(tb.FieldDenoiser().fit(POINTS, v).predict(POINTS)), VECTORS),
        "spectral": (
            lambda v: total(tb.FieldDenoiser(SpectralFilter()).fit(POINTS, v).predict(POINTS)),
            VECTORS,
        ),
    }


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.TangentBundleWarning")
def test_transforms_say_what_has_no_derivative(bundle):
    transforms = (
        lambda f, x: torch.func.grad(f)(x),
        lambda f, x: torch.func.jvp(f, (x,), (x,)),
        lambda f, x: torch.func.vmap(f)(torch.stack([x, x])),
    )
    for function, x in no_derivatives(bundle).values():
        for transform in transforms:
            with pytest.raises(InvalidInputError, match=r"torch\.func"):
                transform(function, x)
        function(x)


def test_products_have_derivatives_in_transforms(bundle):
    laplacian = bundle.laplacian()
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((80, 2, 1)))
    slope = torch.func.grad(lambda v: total(laplacian @ v))(x)
    x.requires_grad_()
    assert torch.allclose(slope, torch.autograd.grad(total(laplacian @ x), x)[0])


@pytest.mark.parametrize("shape", [(), (3,), (80, 2, 1)])
@pytest.mark.parametrize("kind", [tb.nn.TNN, tb.nn.GatedTNN, tb.nn.RecurrentTNN])
def test_tensors_are_no_widths(kind, shape):
    with pytest.raises(InvalidInputError, match=r"tolist.*net\(x, operator\)") as caught:
        kind(torch.ones(shape))
    assert len(str(caught.value)) < 300
