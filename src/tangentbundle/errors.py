"""Named errors, warnings and notes: objects that say what was expected, what came and what to do.

They name arguments of the library as objects, not as text. The library prints an argument as
``neighbors=20``; the command-line tool prints the same one as ``--neighbors 20``:

>>> error = InvalidInputError(
...     "the triangles are no surface.",
...     Remedy("Clean the mesh, or use its vertices only: {neighbors}.", neighbors=20),
... )
>>> print(error)
the triangles are no surface. Clean the mesh, or use its vertices only: neighbors=20.
>>> error.text(lambda argument: f"--{argument.name} {argument.example}")
'the triangles are no surface. Clean the mesh, or use its vertices only: --neighbors 20.'
>>> print(InvalidInputError(argument="dim", expected="a positive integer", received="-1"))
dim must be a positive integer, got -1.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

NO_EXAMPLE = object()
"""The example of an argument that is only named."""


@dataclass(frozen=True)
class Argument:
    """An argument that a message mentions, with a value to give it; ``...`` is any value.

    >>> print(Argument("dim"), Argument("dim", 2), Argument("dim", ...))
    dim dim=2 dim=...
    """

    name: str
    example: Any = NO_EXAMPLE

    def __str__(self) -> str:
        if self.example is NO_EXAMPLE:
            return self.name
        if self.example is ...:
            return f"{self.name}=..."
        return f"{self.name}={self.example!r}"


Spelling = Callable[[Argument], str]
"""How arguments are printed: in Python as ``str`` does, in the tool as options."""


class Remedy:
    """What to do, in sentences with the names of arguments in braces, and an example for each.

    >>> print(Remedy("Fill them, or leave them out with {drop_missing}.", drop_missing=True))
    Fill them, or leave them out with drop_missing=True.
    """

    def __init__(self, sentences: str, **examples: Any) -> None:
        self.sentences = sentences
        self.arguments = {name: Argument(name, example) for name, example in examples.items()}

    def text(self, spelling: Spelling = str) -> str:
        """The sentences with their arguments."""
        if not self.arguments:
            return self.sentences
        spelled = {name: spelling(argument) for name, argument in self.arguments.items()}
        return self.sentences.format(**spelled)

    def __str__(self) -> str:
        return self.text()


class Message:
    """What errors, warnings and notes have in common.

    Attributes:
        problem: what was expected and what came, in sentences, without the argument and the remedy.
        argument: the argument that the problem concerns, "" if none; the text begins with it.
        expected, received: the parts of the problem, where it was given so.
        remedy: what to do about it.
        point: number of the point that the message names, counted from 0 as the caller gave the
            points.
        place: where this point lies in a file, if it came from one.
    """

    point: int | None = None
    place: str = ""

    def __init__(
        self,
        problem: str = "",
        remedy: Remedy | str = "",
        *,
        argument: str = "",
        expected: str = "",
        received: str = "",
    ) -> None:
        if expected:
            came = f", got {received}" if received else ""
            problem = f"must be {expected}{came}."
        self.problem = problem
        self.remedy = Remedy(remedy) if isinstance(remedy, str) else remedy
        self.argument = argument
        self.expected = expected
        self.received = received

    def text(self, spelling: Spelling = str) -> str:
        """All sentences; ``spelling`` prints arguments."""
        problem = self.problem
        if self.argument:
            problem = f"{spelling(Argument(self.argument))} {problem}"
        sentences = [problem, self.remedy.text(spelling)]
        if self.place:
            sentences.append(f"Point {self.point} is {self.place}.")
        return " ".join(sentence for sentence in sentences if sentence)

    def at_point(self, number: int) -> Self:
        """The same message, with the number of its point."""
        self.point = int(number)
        return self

    def __str__(self) -> str:
        return self.text()


class Note(Message):
    """What a reader guessed, converted or left out.

    >>> Note("points: columns x, y, z, guessed by name")
    Note('points: columns x, y, z, guessed by name')
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text()!r})"


class MissingValuesNote(Note):
    """Numbers that count as missing: markers, and values that cannot be."""


def warn(
    problem: str,
    category: type[TangentBundleWarning],
    point: int | None = None,
    remedy: Remedy | str = "",
) -> None:
    """Give a warning that points at the line of the user, who called into the library.

    ``point`` is the number of the point that the message names, as the caller counts them.
    """
    warning = category(problem, remedy)
    if point is not None:
        warning.at_point(point)
    warnings.warn(warning, stacklevel=_level_outside())


def _level_outside() -> int:
    """The ``stacklevel``, seen from the caller, of the first frame outside the library."""
    package = __name__.partition(".")[0]
    frame: types.FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back
        level += 1
    return level


class TangentBundleError(Message, Exception):
    """Base of every error raised on purpose by this library.

    The fields are those of ``Message``: ``problem``, ``remedy``, ``argument``, ``point``.
    """

    def __init__(self, problem: str = "", remedy: Remedy | str = "", **fields: str) -> None:
        Message.__init__(self, problem, remedy, **fields)
        Exception.__init__(self, self.text())


class InvalidInputError(TangentBundleError, ValueError):
    """An argument has the wrong kind, shape or range."""


class NonFiniteError(InvalidInputError):
    """NaN or infinity where finite numbers are needed."""


class ShapeError(InvalidInputError):
    """An array has the wrong shape."""


class DTypeError(InvalidInputError, TypeError):
    """An array has the wrong dtype, or float32 meets float64."""


class UnitsError(InvalidInputError):
    """The components of a vector field have units that cannot be converted to one."""


class DeviceError(InvalidInputError):
    """Two tensors that must share a device do not."""


class TooFewPointsError(InvalidInputError):
    """Fewer points than the estimate needs."""


class OutsideSourceError(InvalidInputError):
    """Places to interpolate at lie outside of the region with data."""


class IsolatedPointsError(TangentBundleError, ValueError):
    """Some points have no neighbour at the given scale."""


class RankDeficientError(TangentBundleError, ValueError):
    """A neighbourhood does not span a tangent space of the wanted dimension."""


class BoundaryError(TangentBundleError, ValueError):
    """The points end at a boundary, and the method is for closed manifolds."""


class NotOrientableError(TangentBundleError, ValueError):
    """The tangent spaces cannot be oriented alike."""


class UndeterminedError(TangentBundleError, ValueError):
    """The data do not determine the answer; the message says why."""


class NotManifoldError(InvalidInputError):
    """The triangles of a mesh do not form an oriented surface; ``edges`` are pairs of vertices
    between which they do not."""

    edges: tuple[tuple[int, int], ...] = ()

    def at_edges(self, edges: Iterable[Iterable[int]]) -> Self:
        """The same error, with the edges ``(k, 2)``."""
        self.edges = tuple((int(tail), int(head)) for tail, head in edges)
        return self


class MemoryLimitError(TangentBundleError, MemoryError):
    """The request would need more memory or time than allowed; nothing was allocated."""

    def __new__(cls, *args: Any, **fields: Any) -> Self:
        """As other exceptions are made: ``MemoryError.__new__`` refuses classes like this one, and
        Dask calls it when an error comes back from a worker."""
        return Exception.__new__(cls)


class ConvergenceError(TangentBundleError, RuntimeError):
    """An iterative solver stopped before reaching its tolerance, or training gave no usable
    network."""


class MissingExtraError(TangentBundleError, ModuleNotFoundError):
    """An optional package is needed and not installed; ``name`` is that of its module."""

    def __init__(self, problem: str = "", remedy: Remedy | str = "", *, name: str = "") -> None:
        super().__init__(problem, remedy)
        self.name = name


class DownloadError(TangentBundleError, OSError):
    """A file could not be had from the network, or not be written to the cache; nothing
    half-written was left."""


class DamagedFileError(TangentBundleError, ValueError):
    """A file is damaged, cut short, or not of the expected kind."""


class ForeignPartError(InvalidInputError):
    """A saved network has classes or functions of a user's own, which were not allowed when it was
    loaded."""


class MissingColumnsError(InvalidInputError):
    """A file lacks the columns, arrays or variables of points or vectors, or they are ambiguous."""


class OutputError(TangentBundleError, OSError):
    """A result could not be written; nothing half-written was left."""


class BusyFolderError(TangentBundleError, RuntimeError):
    """Another process is writing in the same folder."""


class TangentBundleWarning(Message, UserWarning):
    """Base of every warning given on purpose by this library, with the fields of its errors."""

    def __init__(self, problem: str = "", remedy: Remedy | str = "", **fields: str) -> None:
        Message.__init__(self, problem, remedy, **fields)
        UserWarning.__init__(self, self.text())


class DuplicatePointsWarning(TangentBundleWarning):
    """Some points coincide."""


class DisconnectedWarning(TangentBundleWarning):
    """The neighbour graph has several components: nothing flows between them."""


class GlobalNeighborhoodWarning(TangentBundleWarning):
    """Neighbourhoods cover so much of the cloud that nothing is local any more."""


class MeshRepairWarning(TangentBundleWarning):
    """Triangles of a mesh were turned over or left out."""


class DimensionWarning(TangentBundleWarning):
    """Local estimates of the dimension disagree."""


class NotTangentWarning(TangentBundleWarning):
    """A large share of a field is normal to the manifold and is lost by projection."""


class SuspiciousDataWarning(TangentBundleWarning):
    """Data that are probably not what was meant: outliers, noise that hides the manifold, points
    off it."""


class AccuracyWarning(TangentBundleWarning):
    """A result is less accurate than usual: too few neighbours, too low a precision, no gap in a
    spectrum."""


class BoundaryWarning(TangentBundleWarning):
    """The answer depends on a convention at the boundary of the data."""


class AmbiguousTransportWarning(TangentBundleWarning):
    """Points that several shortest geodesics reach, with different transports."""


class DivergedWarning(TangentBundleWarning):
    """Training diverged; the best weights before that are used."""


class NotSavedWarning(TangentBundleWarning):
    """Something about a network was changed after it was built, and is not in its file."""


class NoInformationWarning(TangentBundleWarning):
    """The data say little about the answer, which is near the mean or the climatology."""
