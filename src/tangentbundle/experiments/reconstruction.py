"""The paper's Table 2: wind at masked points, from the wind at the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from ..errors import InvalidInputError
from ..nn import TNN, Coordinatewise
from ..training import Replicas, fit
from .base import Column, Experiment, Row, Task, draw
from .interpolation import INTERPOLATIONS, Stations, contenders, mean
from .wind import SOURCES, Sites, View, available, source_of, value_range

SHARES = (0.5, 0.3, 0.1)
EPOCHS = 300


class Reconstruction(Experiment):
    """One task is one draw of points; the masks on it are trained together, as replicas on one operator."""

    name = "reconstruction"
    title = "Wind field reconstruction"
    cell = ("n", "masked")
    columns = (
        Column("per_node", "mean squared error at masked points", headline=True),
        Column("paper_metric", "sum over masked points / n"),
        Column("oracle_per_node", "oracle epoch, mean squared error at masked points"),
        Column("oracle_paper_metric", "oracle epoch, sum over masked points / n", paper=True),
        Column("parameters", "parameters"),
    )
    sources = tuple(SOURCES)

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        if protocol not in ("paper", "best"):
            raise InvalidInputError(f"the protocols are 'paper' and 'best', got {protocol!r}.")
        sizes, draws = ((100, 200, 300, 400), 8) if full else ((100, 400), 2)
        masks = 1 if protocol == "best" else draws  # Gaussian processes for each take their time
        data = self.data or available()
        _ = source_of(data).field  # whatever must be downloaded comes before any file of results
        same = {"data": data, "protocol": protocol, "masks": masks}
        return [{**same, "n": n, "sampling": sampling} for n in sizes for sampling in range(draws)]

    def run(self, task: Task, seed: int) -> list[Row]:
        scene = Scene(task, seed)
        sizes = {view.name: network(view).num_parameters for view in scene.sites.views("MLP")}
        rows = []
        for method, (winds, oracles) in scene.outcomes(seed).items():
            for number, masked in enumerate(scene.masks):
                errors = np.square(winds[number] - scene.truth)[masked].sum(axis=1) / scene.unit**2
                place = {"n": task["n"], "masked": scene.shares[number], "sampling": task["sampling"]}
                found = {"method": method, "mask": number % task["masks"], "points": len(masked), "data": task["data"]}
                found["parameters"] = sizes.get(method)
                rows.append({**place, **found, **_scores(errors, len(masked), oracles[number])})
        return rows

    def notes(self, rows: Sequence[Row], protocol: str) -> str:
        data = "; ".join(SOURCES[name].about for name in dict.fromkeys(row["data"] for row in rows))
        common = (
            f"Data: {data}. Errors are squared lengths in units of the range of the field (largest minus least "
            "component), as in the paper. Points are drawn by area. The sum over masked points divided by all n falls "
            "with the masked share for every method; the mean at masked points does not. No run is discarded.\n\n"
        )
        if protocol == "best":
            return common + (
                "`FieldInterpolator, history` also knows other fields on the whole grid; all other rows know the one "
                "masked field alone. Rows of networks, where shown, are those of the paper's protocol."
            )
        return common + (
            "Masked inputs are replaced by the projected mean of the observed vectors. DD-TNN sees the wind in "
            "estimated frames; MNN and MLP see east and north as two channels. Training: "
            f"{EPOCHS} epochs on the observed points, then the weights of the least loss. The paper's patience of 5 "
            "epochs watches the error at the masked points, which needs the answer: the oracle epoch stands for it."
        )

    def figures(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        from .figures import reconstruction_figures

        return reconstruction_figures(rows, folder)


class Scene:
    """The draws of a task: sites, true wind, and masks ``(shares x masks, n)``."""

    def __init__(self, task: Task, seed: int, shares: Sequence[float] = SHARES) -> None:
        data, n, sampling = source_of(task["data"]).field, task["n"], task["sampling"]
        chosen = data.at(data.sample(n, draw(seed, "points", n, sampling)))
        self.task, self.unit = task, value_range(data)
        self.sites, self.truth = Sites(chosen), chosen.components[0]
        self.shares = [share for share in shares for _ in range(task["masks"])]
        places = [(share, mask) for share in shares for mask in range(task["masks"])]
        self.masks = [_mask(draw(seed, "mask", n, sampling, *place), place[0], len(self.truth)) for place in places]

    def stations(self) -> list[Stations]:
        """What methods may see, one for each mask."""
        return [Stations(self.sites, np.where(masked[:, None], np.nan, self.truth)) for masked in self.masks]

    def outcomes(self, seed: int) -> dict[str, tuple[np.ndarray, list]]:
        """Wind ``(masks, n, 2)`` of every method; for networks also the errors at masked points of an oracle."""
        stations, found, best = self.stations(), {}, self.task["protocol"] == "best"
        for view in [] if best else self.sites.views("MLP"):
            watch = Watch(view, self.truth, self.masks, self.unit)
            weights = int(draw(seed, "weights", view.name, self.task["n"], self.task["sampling"]).integers(2**31))
            winds = reconstruct(view, stations, weights, watch)
            found[view.name] = winds, [e[m] for e, m in zip(watch.errors.numpy(), self.masks, strict=True)]
        methods = INTERPOLATIONS | (contenders(source_of(self.task["data"]).past) if best else {})
        none = [None] * len(stations)
        return found | {name: (np.stack([m(s) for s in stations]), none) for name, m in methods.items()}


def network(view: View, seed: int = 0) -> TNN:
    """The paper's network of three layers."""
    widths = [view.channels, 8, 4, view.channels]
    return TNN(widths, view.taps, activation=Coordinatewise(torch.tanh), seed=seed)


def reconstruct(view: View, stations: Sequence[Stations], seed: int, watch: Watch | None = None) -> np.ndarray:
    """The paper's network, one replica for each mask, trained on observed points: wind ``(masks, n, 2)``."""
    scale = np.array([np.nanmax(s.wind) - np.nanmin(s.wind) for s in stations])[:, None, None]
    filled = np.stack([np.where(s.seen[:, None], s.wind, mean(s)) for s in stations])
    seen = torch.from_numpy(np.stack([s.seen for s in stations]))
    x = view.signal(torch.from_numpy(filled / scale).float())

    def loss(nets: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
        output = nets(batch, view.operator)
        if watch is not None:
            watch(output.detach(), scale)
        return ((output - batch).square().sum(dim=(-2, -1)) * seen).sum(dim=-1) / seen.sum(dim=-1)

    nets = Replicas(lambda s: network(view, s), len(stations), seed)
    fit(nets, [x], loss, epochs=EPOCHS, progress=False)
    with torch.no_grad():
        return view.wind(nets(x, view.operator)).double().numpy() * scale


class Watch:
    """Looks on while networks train, and keeps the errors ``(masks, n)`` of the epoch that is best at masked points."""

    def __init__(self, view: View, truth: np.ndarray, masks: Sequence[np.ndarray], unit: float) -> None:
        self.view, self.truth, self.unit = view, torch.from_numpy(truth), unit
        self.masks = torch.from_numpy(np.stack(masks))
        self.errors = torch.full(self.masks.shape, torch.inf, dtype=torch.float64)

    def __call__(self, output: torch.Tensor, scale: np.ndarray) -> None:
        wind = self.view.wind(output).double() * torch.from_numpy(scale)
        now = (wind - self.truth).square().sum(dim=-1) / self.unit**2 * self.masks
        better = now.sum(dim=-1) < (self.errors * self.masks).nan_to_num(torch.inf).sum(dim=-1)
        self.errors = torch.where(better[:, None], now, self.errors)


def _mask(rng: np.random.Generator, share: float, n: int) -> np.ndarray:
    """Each point masked or not on its own, and at least one of either kind."""
    while not 0 < (masked := rng.random(n) < share).sum() < n:
        pass
    return masked


def _scores(errors: np.ndarray, n: int, oracle: np.ndarray | None) -> Row:
    """Both metrics, of the honest and of the oracle's errors at masked points."""
    scores: Row = {"per_node": float(errors.mean()), "paper_metric": float(errors.sum() / n)}
    if oracle is None:
        return scores
    return scores | {"oracle_per_node": float(oracle.mean()), "oracle_paper_metric": float(oracle.sum() / n)}
