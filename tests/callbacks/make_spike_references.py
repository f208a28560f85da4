#!/usr/bin/env python3
"""Writes spike_references.json: in which batch Lightning's SpikeDetection ends a run, of generated losses of one or two ranks.

    python3 -m pip install lightning==2.6.6 torchmetrics && python3 make_spike_references.py
"""
import json
import math
import pathlib
import random
import tempfile
import types

import torch
from lightning.fabric.utilities.spike import SpikeDetection, TrainingSpikeException

OPTIONS = [{}, {"window": 3}, {"warmup": 8}, {"rtol": 0.5}, {"rtol": None, "atol": 0.4}, {"atol": 1.5, "rtol": 0.1}, {"mode": "max"},
           {"finite_only": False}, {"finite_only": False, "rtol": None, "atol": 2.0, "window": 1}]


def losses_of(rng):
    level = rng.uniform(0.5, 4)
    losses = []
    for _ in range(24):
        level *= rng.uniform(0.85, 1.1)
        losses.append(round(level * rng.choice([1, 1, 1, 1, 1, 1, 1, 1, rng.uniform(0.05, 6)]), 4))
    if rng.random() < 0.3:
        losses[rng.randrange(24)] = rng.choice([math.nan, math.inf])
    return losses


class Strategy:
    """Ranks that take their turns in one process: decisions are made of what all of them say."""

    root_device = torch.device("cpu")

    def __init__(self):
        self.decision = None

    def barrier(self):
        pass

    def reduce_boolean_decision(self, decision, all):
        return decision if self.decision is None else self.decision


def detect(options, by_rank):
    with tempfile.TemporaryDirectory() as folder:
        ranks = [SpikeDetection(exclude_batches_path=folder, **options) for _ in by_rank]
        for batch in range(24):
            losses = [torch.tensor(losses[batch], dtype=torch.float64) for losses in by_rank]
            spikes = [batch >= rank.warmup and rank._is_spike(loss) for rank, loss in zip(ranks, losses)]
            finite = all(bool(torch.isfinite(loss)) for loss in losses)
            if any(spikes):
                strategy = Strategy()
                strategy.decision = True
                try:
                    ranks[0].on_train_batch_end(types.SimpleNamespace(strategy=strategy, global_rank=0), losses[0], None, batch)
                except TrainingSpikeException:
                    return batch, json.loads((pathlib.Path(folder) / "skip_batches.json").read_text())
            for rank, loss in zip(ranks, losses):
                if rank.finite_only or finite:
                    rank._update_stats(loss)
        return -1, []


rng = random.Random(5)
cases = []
for options in OPTIONS:
    for ranks in (1, 1, 1, 2, 2):
        by_rank = [losses_of(rng) for _ in range(ranks)]
        batch, listed = detect(options, by_rank)
        texts = [[str(loss) for loss in losses] for losses in by_rank]
        cases.append({"options": options, "losses": [" ".join(text) for text in texts], "batch": batch, "listed": listed})
text = "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n"
(pathlib.Path(__file__).parent / "spike_references.json").write_text(text)
