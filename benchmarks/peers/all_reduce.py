"""Microseconds of an all-reduce over Gloo between ranks that torchrun has started. Usage: all_reduce.py BYTES"""
import json
import sys
import time

import torch

TIMES, WARM_UP = 200, 20

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
tensor = torch.zeros(int(sys.argv[1]) // 4)
for index in range(WARM_UP + TIMES):
    if index == WARM_UP:
        torch.distributed.barrier()
        started = time.perf_counter()
    torch.distributed.all_reduce(tensor)
if torch.distributed.get_rank() == 0:
    print(json.dumps({"value": (time.perf_counter() - started) / TIMES * 1e6}), flush=True)
torch.distributed.destroy_process_group()
