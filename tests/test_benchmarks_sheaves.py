"""The benchmark of node classification: its convolutions against PyTorch Geometric, its scores, and
its training."""

import pytest
import torch
from sklearn.metrics import roc_auc_score

from benchmarks import graph_models, sheaves

EDGES = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 3]])
BOTH = torch.cat([EDGES, EDGES.flip(0)], 1)


@pytest.mark.parametrize("name", graph_models.PLAIN)
def test_plain_convolutions_are_those_of_pytorch_geometric(name):
    pytest.importorskip("torch_geometric")
    x = torch.randn(7, 8, generator=torch.Generator().manual_seed(0))  # two nodes have no edges
    theirs, ours = (
        graph_models.convolution(name, 8, kinds) for kinds in (None, graph_models.PLAIN)
    )
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    ours.load_state_dict(theirs.state_dict())
    assert torch.allclose(ours(x, BOTH), theirs(x, BOTH), atol=1e-6)


def test_scores():
    generator = torch.Generator().manual_seed(0)
    logits, y = torch.randn(200, 2, generator=generator).round(decimals=1), torch.arange(200) % 2
    expected = 100 * roc_auc_score(y, (logits[:, 1] - logits[:, 0]).numpy())
    assert sheaves.score(logits, y, "ROC AUC") == pytest.approx(expected)
    assert sheaves.score(torch.eye(2)[y], y, "accuracy") == 100


@pytest.mark.parametrize("row", sheaves.ROWS)
def test_every_row_learns(row):
    """Labels that are features at the node itself."""
    y = torch.arange(12) % 2
    x = torch.nn.functional.one_hot(y, 4).float()
    ring = torch.stack([torch.arange(12), (torch.arange(12) + 1) % 12])
    masks = torch.ones(3, 1, 12, dtype=torch.bool)
    graph = sheaves.Graph(x, y, torch.cat([ring, ring.flip(0)], 1), masks)
    data = sheaves.DataSet("accuracy", 60, 60, 1, {})
    setting = {"layers": 1, "dropout": 0.0, "rate": 0.02, "decay": 0.0, "own": True}
    assert sheaves.train(graph, data, row, setting, 1).tolist() == [[100, 100]]
