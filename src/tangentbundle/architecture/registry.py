"""What an architecture may name: classes of the library, pointwise functions and modules of torch,
and classes and functions of a user's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .. import filters, nn, operators
from ..filters.base import Composition, Constant, Sum
from ..filters.shrinkage import Rational

Foreign = type | Callable[..., Any]
"""A class or function of a user's own."""

KINDS = (
    nn.Configured,
    filters.Method,
    filters.Filter,
    nn.Constraint,
    nn.Parametrization,
    operators.Degrees,
)
"""What parts of networks are."""

BASES = (
    filters.Filter,
    filters.Method,
    nn.Activation,
    nn.Configured,
    nn.Constraint,
    nn.FieldNorm,
    nn.LearnableFilter,
    nn.Parametrization,
    nn.Pooling,
    nn.Readout,
    nn.Recurrent,
    nn.SheafBuilder,
    operators.Degrees,
)
"""Classes to derive from, of which there are no objects."""

INTERNAL = (Sum, Composition, Constant, Rational)
"""Parts without a public name: what arithmetic with filters gives, and what a denoiser chooses."""


def _library_classes() -> dict[str, type]:
    classes: dict[str, type] = {}
    for package in (nn, filters, operators):
        for name in package.__all__:
            member = getattr(package, name)
            if isinstance(member, type) and issubclass(member, KINDS) and member not in BASES:
                classes[member.__name__] = member
    for member in INTERNAL:
        classes[member.__name__] = member
    return classes


CLASSES = _library_classes()
"""Every class of the library that may appear in an architecture, by name."""

TORCH_NAMES = (
    "tanh relu sigmoid sin abs absolute acos acosh arcsinh arctan asin asinh atan atanh celu cos "
    "cosh erf erfc exp exp2 expm1 log log10 log1p log2 neg negative positive reciprocal round "
    "rsqrt selu sgn sign sinc sinh sqrt square tan"
)
FUNCTIONAL_NAMES = (
    "silu softplus elu relu tanh sigmoid relu6 selu celu gelu mish leaky_relu hardtanh hardswish "
    "hardsigmoid hardshrink softshrink softsign tanhshrink logsigmoid"
)
SPECIAL_NAMES = "erf erfc expit i0e i1e sinc"


def _pointwise_functions() -> dict[str, Callable[..., torch.Tensor]]:
    functions: dict[str, Callable[..., torch.Tensor]] = {}
    for name in TORCH_NAMES.split():
        functions[name] = getattr(torch, name)
        if hasattr(torch.Tensor, name):
            functions[f"Tensor.{name}"] = getattr(torch.Tensor, name)
    for name in FUNCTIONAL_NAMES.split():
        key = f"functional.{name}" if name in functions else name
        functions[key] = getattr(F, name)
    for name in SPECIAL_NAMES.split():
        functions[f"special.{name}"] = getattr(torch.special, name)
    return functions


FUNCTIONS = _pointwise_functions()
"""Pointwise functions of torch that may appear in an architecture, by name."""


def function_name(value: Any) -> str | None:
    """The name of a pointwise function of torch; None for anything else."""
    for name, function in FUNCTIONS.items():
        if function is value:
            return name
    return None


def path_of(part: Any) -> str:
    """Where a class or function is defined, ``module:name``."""
    name = getattr(part, "__qualname__", getattr(part, "__name__", ""))
    return f"{getattr(part, '__module__', None)}:{name}"


def last_name(path: str) -> str:
    """The name of a class or function without the module and classes around it."""
    _, _, qualified_name = path.rpartition(":")
    return qualified_name.rpartition(".")[2]


def is_torch_module(kind: type) -> bool:
    """Whether a class is one of ``torch.nn`` itself."""
    if kind is torch.nn.Module or not kind.__module__.startswith("torch.nn.modules."):
        return False
    return getattr(torch.nn, kind.__name__, None) is kind


def arguments_of(value: Any) -> dict[str, Any] | None:
    """The arguments that build an object again; None for objects of classes that keep none."""
    record = "arguments" if isinstance(value, nn.Configured) else "_arguments"
    arguments = vars(value).get(record)
    if isinstance(arguments, dict):
        return arguments
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields_of(value)
    if isinstance(value, KINDS) and not isinstance(value, filters.Filter) and not vars(value):
        return {}  # its constructor takes none
    return None


def _fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that its constructor takes, parameters as they were given."""
    stored = vars(value)
    arguments = {}
    for field in dataclasses.fields(value):
        if field.init and field.name in stored:
            arguments[field.name] = stored[field.name]
        elif field.init:
            arguments[field.name] = getattr(value, field.name)
    return arguments
