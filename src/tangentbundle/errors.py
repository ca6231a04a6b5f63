"""Named errors and warnings: each message says what was expected, what came and what to do."""


class TangentBundleError(Exception):
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


class NotManifoldError(InvalidInputError):
    """The triangles of a mesh do not form an oriented surface."""


class MemoryLimitError(TangentBundleError, MemoryError):
    """The request would need more memory or time than allowed; nothing was allocated."""


class ConvergenceError(TangentBundleError, RuntimeError):
    """An iterative solver stopped before reaching its tolerance."""


class MissingExtraError(TangentBundleError, ModuleNotFoundError):
    """An optional package is needed and not installed."""


class DownloadError(TangentBundleError, OSError):
    """A file could not be had from the network; nothing half-written was left."""


class TrainingError(TangentBundleError, RuntimeError):
    """Training gave no usable network."""


class DamagedFileError(TangentBundleError, ValueError):
    """A file is damaged, cut short, or not of the expected kind."""


class MissingColumnsError(InvalidInputError):
    """A file lacks the columns, arrays or variables of points or vectors, or they are ambiguous."""


class OutputError(TangentBundleError, OSError):
    """A result could not be written; nothing half-written was left."""


class BusyFolderError(TangentBundleError, RuntimeError):
    """Another process is writing in the same folder."""


class TangentBundleWarning(UserWarning):
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


class NoisyCloudWarning(TangentBundleWarning):
    """Noise hides the tangent spaces, or there are signs of outliers."""


class LinearFitWarning(TangentBundleWarning):
    """Some points have too few neighbours for a quadratic fit; it is linear there."""


class NoGapWarning(TangentBundleWarning):
    """Harmonic fields are not separated from others by a gap in the spectrum."""


class NotTangentWarning(TangentBundleWarning):
    """A large share of a field is normal to the manifold and is lost by projection."""


class NoFieldWarning(TangentBundleWarning):
    """No field could be distinguished from noise."""


class OffManifoldWarning(TangentBundleWarning):
    """Points do not lie on the manifold they are said to."""


class OutlierWarning(TangentBundleWarning):
    """Single points lie so far from the others that they determine the answer."""


class SuspiciousDataWarning(TangentBundleWarning):
    """Data that are probably not what was meant, or a filter that leaves nothing of them."""


class PrecisionWarning(TangentBundleWarning):
    """The precision in use is too low for a filter; float64 is needed."""


class DivergedWarning(TangentBundleWarning):
    """Training diverged; the best weights before that are used."""


class FarPointsWarning(TangentBundleWarning):
    """Points to predict at lie far from all training points."""


class ShortSeriesWarning(TangentBundleWarning):
    """A series is too short for the forecasting method; forecasts are the climatology."""
