"""The paper's four experiments, with honest baselines. See docs/results."""
