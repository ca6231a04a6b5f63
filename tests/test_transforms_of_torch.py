"""The private names of torch that ``transforms`` uses say what it takes them to say."""

import pytest
import torch
import torch.autograd.forward_ad as forward_ad

from tangentbundle.transforms import (
    has_tangent,
    is_batched,
    is_seen,
    is_transformed,
    is_transforming,
    outside_transforms,
)

TRANSFORMS = {
    "grad": lambda f, x: torch.func.grad(f)(x),
    "vmap": lambda f, x: torch.func.vmap(f)(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "vmap of grad": lambda f, x: torch.func.vmap(torch.func.grad(f))(x),
}


def answers(transform):
    """What is said within a transform, and a tensor that leaks out of it."""
    said, leaked = {}, []

    def function(x):
        said.update(
            transforming=is_transforming(),
            batched=is_batched(x),
            transformed=is_transformed(x),
            seen=is_seen(x),
        )
        with outside_transforms():
            said["outside"] = is_transforming()
            said["plain"] = float(torch.ones(3).numpy().sum())
        leaked.append(x)
        return (x * x).sum()

    transform(function, torch.ones(4, 3)[:, 0])
    return said, leaked[0]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_seen_while_they_last_and_not_after(name):
    said, leaked = answers(TRANSFORMS[name])
    assert said == {
        "transforming": True,
        "batched": "vmap" in name and "grad" not in name,
        "transformed": True,
        "seen": False,
        "outside": False,
        "plain": 3.0,
    }
    assert not is_transforming()
    assert not is_transformed(torch.ones(2)) and is_seen(torch.ones(2))
    if "grad" in name:  # batches that leak are of no use, and are not asked for
        assert not is_transformed(leaked)


def test_tangents_are_seen():
    x = torch.ones(3)
    assert not has_tangent(x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        assert has_tangent(dual) and is_transformed(dual)
        assert not has_tangent(x)
    assert not is_transformed(None)
