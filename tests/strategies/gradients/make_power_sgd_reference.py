"""Writes power_sgd_reference.json: what PyTorch's powerSGD_hook makes of the gradients that power_sgd_test.cpp makes too, on two
ranks over Gloo. Run it with a Python that has torch: python make_power_sgd_reference.py
"""

import json
import math
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

RANKS = 2
STEPS = 5
SHAPES = [(6, 8), (7,), (5, 2, 4), ()]
SETTINGS = {
    "rank_1": {"matrix_approximation_rank": 1},
    "rank_2": {"matrix_approximation_rank": 2},
    "cold": {"matrix_approximation_rank": 1, "warm_start": False},
    "without_feedback": {"matrix_approximation_rank": 2, "use_error_feedback": False},
}


def gradient(rank, step, parameter):
    shape = SHAPES[parameter]
    count = math.prod(shape)
    index = torch.arange(count, dtype=torch.float32)
    values = torch.sin(index * (1.3 + 0.1 * parameter) + 0.7 * rank + 0.31 * step) + 0.1 * torch.cos(index * index * 0.3)
    return values.view(shape)


class Bucket:
    """What the hook needs of a bucket."""

    def __init__(self, rank, step):
        self.flat = torch.cat([gradient(rank, step, number).flatten() for number in range(len(SHAPES))])

    def buffer(self):
        return self.flat

    def index(self):
        return 0

    def is_last(self):
        return True

    def gradients(self):
        sizes = [math.prod(shape) for shape in SHAPES]
        # The hook cannot take a parameter without dimensions as a matrix; one element is the same to it.
        return [part.view(shape or (1,)) for part, shape in zip(self.flat.split(sizes), SHAPES)]


class Seeds:
    """Draws the seed that levin takes, the number of the step, instead of NumPy's numbers."""

    def __init__(self, state):
        self.state = state

    def randint(self, _):
        return self.state.iter


def work(rank, folder, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    for name, options in SETTINGS.items():
        state = PowerSGDState(
            dist.group.WORLD, start_powerSGD_iter=2, min_compression_rate=1, **options
        )
        state.rng = Seeds(state)
        steps = []
        for step in range(STEPS):
            bucket = Bucket(rank, step)
            out = powerSGD_hook(state, bucket).wait()
            steps.append((out[0] if isinstance(out, list) else out).tolist())
        if rank == 0:
            results[name] = steps


def main():
    import tempfile

    with mp.Manager() as manager, tempfile.TemporaryDirectory() as folder:
        results = manager.dict()
        mp.spawn(work, args=(folder, results), nprocs=RANKS)
        text = {"torch": torch.__version__.split("+")[0], "results": dict(results)}
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("power_sgd_reference.json")
    target.write_text(json.dumps(text, separators=(",", ":")).replace("],[", "],\n[") + "\n")


if __name__ == "__main__":
    main()
