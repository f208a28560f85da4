"""What large_model.cpp measures on two ranks, in PyTorch: DistributedDataParallel by hand, started by torchrun.

Usage: large_model.py layers_N [--fused] [--bucket-view]

Prints one line of JSON: milliseconds a step.
"""
import argparse
import json
import os
import time

import torch
from torch.nn import functional

WARM_UP_STEPS, STEPS, BATCH_SIZE, LAYERS = 4, 16, 32, 24


def make_net(units):
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(units, units), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    parser.add_argument("--fused", action="store_true", help="AdamW's fused kernel, which is not PyTorch's default on the CPU")
    parser.add_argument("--bucket-view", action="store_true", help="gradient_as_bucket_view")
    arguments = parser.parse_args()
    units = int(arguments.network.removeprefix("layers_"))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.distributed.init_process_group("gloo")
    net = torch.nn.parallel.DistributedDataParallel(make_net(units), gradient_as_bucket_view=arguments.bucket_view)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-4, fused=arguments.fused or None)
    rows, labels = torch.rand(BATCH_SIZE, units), torch.randint(units, (BATCH_SIZE,))
    for step in range(STEPS):
        if step == WARM_UP_STEPS:
            started = time.perf_counter()
        optimizer.zero_grad()
        functional.cross_entropy(net(rows), labels).backward()
        optimizer.step()
    if int(os.environ["RANK"]) == 0:
        print(json.dumps({"value": (time.perf_counter() - started) / (STEPS - WARM_UP_STEPS) * 1e3}), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
