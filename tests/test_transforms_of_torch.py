"""The private names of torch that ``transforms`` uses say what it takes them to say."""

import pytest
import torch
import torch.autograd.forward_ad as forward_ad

from tangentbundle.transforms import (
    OWN_FIELDS,
    build_module,
    count_changes,
    has_forward_hooks,
    has_hooks,
    has_tangent,
    is_batched,
    is_seen,
    is_transformed,
    is_transforming,
    module_state,
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


class Counter(torch.nn.Module):
    """One of everything that a module can hold."""

    def __init__(self):
        super().__init__()
        self.size = 3
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.register_parameter("bias", None)
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)
        self.inner = torch.nn.Linear(2, 2)


def test_modules_are_built_from_their_state():
    module = Counter()
    state = module_state(module)
    assert state.attributes == {"size": 3}
    assert list(state.parameters) == ["weight", "bias"] and state.parameters["bias"] is None
    assert list(state.buffers) == ["calls", "scratch"]
    assert state.transient_buffers == {"scratch"}
    assert list(state.modules) == ["inner"]
    again = build_module(Counter, state)
    assert again.size == 3 and again.inner is module.inner and again.bias is None
    assert list(again.state_dict()) == list(module.state_dict())
    assert {"training", "_parameters", "_buffers", "_modules"} <= OWN_FIELDS


@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward", "full_backward_pre"])
def test_hooks_are_seen(kind):
    module = torch.nn.Linear(2, 2)
    assert not has_hooks(module) and not has_forward_hooks(module)
    handle = getattr(module, f"register_{kind}_hook")(lambda *arguments: None)
    assert has_hooks(module) and has_forward_hooks(module) is kind.startswith("forward")
    handle.remove()
    assert not has_hooks(module)


def test_changes_are_counted():
    x = torch.ones(3)
    before = count_changes(x)
    x.add_(1)
    assert count_changes(x) == before + 1
    assert count_changes(x + 1) == 0
