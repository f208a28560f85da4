#!/usr/bin/env python3
"""Trains the digits twice on two ranks, makes a report of both, and takes its pictures with Chromium, light and dark.

Usage: scripts/picture_of_report.py [--build FOLDER] [--chromium PROGRAM] [--folder docs/images]
"""
import argparse
import os
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CALLBACKS = ["--trainer.callbacks+=ThroughputMonitor", "--trainer.callbacks+=MemoryMonitor"]


def take_picture(chromium, page, file, is_dark, profile):
    subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
                    "--virtual-time-budget=3000", f"--blink-settings=preferredColorScheme={0 if is_dark else 1}",
                    "--window-size=1240,1010", f"--screenshot={file}", f"file://{page}"], check=True, stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--chromium", default="chromium")
    parser.add_argument("--folder", default=os.path.join(ROOT, "docs/images"))
    options = parser.parse_args()
    levin = os.path.join(options.build, "bin/levin")
    with tempfile.TemporaryDirectory() as folder:
        for rate in (0.002, 0.01):
            subprocess.run([levin, "fit", "--config", os.path.join(ROOT, "examples/digits/ddp.yaml"), f"--model.lr={rate}",
                            "--trainer.max_epochs=8", "--trainer.profiler=simple", f"--trainer.default_root_dir={folder}", *CALLBACKS],
                           check=True, stdout=subprocess.DEVNULL)
        page = os.path.join(folder, "report.html")
        subprocess.run([levin, "report", os.path.join(folder, "logs"), "-o", page], check=True)
        for name, is_dark in (("light", False), ("dark", True)):
            take_picture(options.chromium, page, os.path.join(os.path.abspath(options.folder), f"report-{name}.png"), is_dark,
                         os.path.join(folder, "chromium"))


if __name__ == "__main__":
    main()
