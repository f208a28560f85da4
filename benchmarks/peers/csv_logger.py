"""What csv_logger.cpp measures with a new metric every 10 rows, with Lightning's CSVLogger. Usage: csv_logger.py ROWS"""
import json
import sys
import time

from lightning.pytorch.loggers import CSVLogger

rows = int(sys.argv[1])
logger = CSVLogger(".")
started = time.perf_counter()
for step in range(rows):
    logger.log_metrics({"train_loss": 1 / (step + 1), "train_acc": 0.5, f"metric_{step // 10}": 1.0}, step=step)
print(json.dumps({"value": (time.perf_counter() - started) / rows * 1e6}), flush=True)
