"""Named errors and warnings: each message says what was expected, what came and what to do."""

import sys
import types
import warnings
from typing import Self


def warn(message: str, category: "type[TangentBundleWarning]", point: int | None = None) -> None:
    """Give a warning that points at the line of the user, who called into the library.

    ``point`` is the number of the point that the message names, as the caller counts them.
    """
    warning = category(message)
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


class AtPoint:
    """What errors and warnings about one of many points have in common."""

    point: int | None = None
    """Number of the point that the message names, counted from 0 as the caller gave the points."""

    def at_point(self, number: int) -> Self:
        """The same error, with the number of its point."""
        self.point = int(number)
        return self


class TangentBundleError(AtPoint, Exception):
    """Base of every error raised on purpose by this library."""


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
    """The triangles of a mesh do not form an oriented surface."""


class MemoryLimitError(TangentBundleError, MemoryError):
    """The request would need more memory or time than allowed; nothing was allocated."""


class ConvergenceError(TangentBundleError, RuntimeError):
    """An iterative solver stopped before reaching its tolerance, or training gave no usable
    network."""


class MissingExtraError(TangentBundleError, ModuleNotFoundError):
    """An optional package is needed and not installed."""


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


class TangentBundleWarning(AtPoint, UserWarning):
    """Base of every warning given on purpose by this library."""


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
