#!/usr/bin/env python3
"""Runs that save and resume at s3:// addresses.

    remote_checkpoints_test.py PROGRAM LEVIN
"""

import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import unittest

from s3_server import KEY, SECRET, WithServer

PROGRAM, LEVIN = sys.argv[1:3]
RUN = "s3://bucket/runs/a"
MB = 1 << 20


def tensors_of(content):
    """The bytes of each weight and of each state of an optimizer in a checkpoint."""
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    return {name: content[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
            for name, entry in header.items() if name.startswith(("state_dict", "optimizer"))}


class RemoteCheckpoints(WithServer):
    def setUp(self):
        super().setUp()
        self.server.needs_signature = True
        self.environment.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)
        rows = "".join(f"{number / 50},{number % 7},{number % 3}\n" for number in range(90))
        (self.folder / "table.csv").write_text(f"x,y,label\n{rows}")

    def machine(self, name):
        """Another machine: its own cache and working folder."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        self.environment["LEVIN_DATA_CACHE"] = str(folder / "cache")
        return folder

    def words(self, command, *more, save_top_k=2, every=2):
        callbacks = [{"class_path": "ModelCheckpoint", "init_args": {
            "dirpath": RUN, "monitor": "step", "mode": "max", "save_top_k": save_top_k, "save_last": "link",
            "every_n_train_steps": every}}]
        own = [f"--trainer.callbacks={json.dumps(callbacks)}"] if command == "fit" else []
        return [LEVIN, command, "--model=MLPClassifier", "--data=TableDataModule", f"--data.path={self.folder / 'table.csv'}",
                "--data.batch_size=8", *own, *more]

    def levin(self, folder, command, *more, status=0, **given):
        ended = subprocess.run(self.words(command, *more, **given), env=self.environment, cwd=folder, capture_output=True, text=True,
                               timeout=100)
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        return ended.stdout + ended.stderr

    def saved(self):
        return sorted(name.removeprefix("/bucket/runs/a/") for name in self.server.files)

    def test_a_run_goes_on_on_another_machine(self):
        steps = "--trainer.max_steps={}".format
        self.levin(self.machine("whole"), "fit", steps(14))
        whole = self.server.files["/bucket/runs/a/last.ckpt"]
        self.server.files.clear()
        said = self.levin(self.machine("first"), "fit", steps(8))
        self.assertNotIn("not empty", said)
        self.assertEqual(self.saved(), ["epoch=0-step=6.ckpt", "epoch=0-step=8.ckpt", "last.ckpt"])
        self.levin(self.machine("second"), "fit", steps(10), "--ckpt_path=last")
        self.assertEqual(self.saved(), ["epoch=0-step=8.ckpt", "epoch=1-step=10.ckpt", "last.ckpt"])
        self.levin(self.machine("third"), "fit", steps(12), f"--ckpt_path={RUN}")
        self.levin(self.machine("fourth"), "fit", steps(14), f"--ckpt_path={RUN}/last.ckpt", "--trainer.devices=1")
        self.assertEqual(self.saved(), ["epoch=1-step=12.ckpt", "epoch=1-step=14.ckpt", "last.ckpt"])
        self.assertEqual(tensors_of(self.server.files["/bucket/runs/a/last.ckpt"]), tensors_of(whole))
        self.assertEqual(tensors_of(self.server.files["/bucket/runs/a/epoch=1-step=14.ckpt"]), tensors_of(whole))
        fifth = self.machine("fifth")
        self.assertIn("epoch=1-step=14.ckpt", self.levin(fifth, "validate", f"--ckpt_path={RUN}:best"))
        self.assertEqual(list((fifth / "cache").glob("uploads/*")), [])

    def test_two_ranks_save_what_one_rank_reads(self):
        self.levin(self.machine("first"), "fit", "--trainer.max_steps=4", "--trainer.devices=2", "--trainer.strategy=ddp")
        self.assertEqual(self.saved(), ["epoch=0-step=2.ckpt", "epoch=0-step=4.ckpt", "last.ckpt"])
        self.levin(self.machine("second"), "fit", "--trainer.max_steps=6", "--trainer.devices=2", "--trainer.strategy=ddp",
                   "--ckpt_path=last")
        self.assertIn("epoch=1-step=6.ckpt", self.saved())
        self.levin(self.machine("third"), "validate", f"--ckpt_path={RUN}:last")

    def test_a_server_that_restarts_does_not_end_the_run(self):
        folder = self.machine("first")
        self.server.failures = 5
        self.levin(folder, "fit", "--trainer.max_steps=4")
        self.assertEqual(self.saved(), ["epoch=0-step=2.ckpt", "epoch=0-step=4.ckpt", "last.ckpt"])

    def test_wrong_credentials_end_the_run_before_it_trains(self):
        self.environment["AWS_SECRET_ACCESS_KEY"] = "a wrong secret"
        said = self.levin(self.machine("first"), "fit", "--trainer.max_steps=4", status=1)
        self.assertIn("status 403", said)
        self.assertNotIn("a wrong secret", said)
        self.assertNotIn("Epoch 0", said)

    def test_an_address_that_takes_no_files_is_named(self):
        callbacks = [{"class_path": "ModelCheckpoint", "init_args": {"dirpath": "https://host/runs"}}]
        said = self.levin(self.machine("first"), "fit", f"--trainer.callbacks={json.dumps(callbacks)}", status=2)
        self.assertIn("s3://BUCKET/FOLDER", said)

    def test_large_files_appear_whole(self):
        own = self.folder / "large.ckpt"
        content = os.urandom(MB) * 129
        own.write_bytes(content)
        self.server.failures = 2
        subprocess.run([PROGRAM, "upload", str(own), f"{RUN}/large.ckpt"], env=self.environment, check=True, timeout=100)
        self.assertTrue(self.server.files["/bucket/runs/a/large.ckpt"] == content)  # without a text of both when they differ
        sizes = [int(headers["Content-Length"]) for command, _, headers in self.server.requests if command == "PUT"]
        self.assertEqual(sorted(sizes), [MB, 64 * MB, 64 * MB])
        self.assertEqual(self.server.uploads, {})

    def test_an_upload_that_is_refused_leaves_nothing(self):
        own = self.folder / "large.ckpt"
        own.write_bytes(bytes(65 * MB))
        self.server.refuse_part = 2
        ended = subprocess.run([PROGRAM, "upload", str(own), f"{RUN}/large.ckpt"], env=self.environment, capture_output=True,
                               text=True, timeout=100)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("cannot be written: the server refuses it (status 403)", ended.stderr)
        self.assertEqual((self.server.files, self.server.uploads), ({}, {}))

    def test_a_run_that_is_killed_while_it_uploads_leaves_the_file_before(self):
        folder = self.machine("first")
        self.levin(folder, "fit", "--trainer.max_steps=4")
        before = dict(self.server.files)
        self.server.holds_puts = True
        run = subprocess.Popen(self.words("fit", "--trainer.max_steps=1000", "--ckpt_path=last"), env=self.environment, cwd=folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertTrue(self.server.is_put.wait(60))
        run.send_signal(signal.SIGKILL)
        run.wait(60)
        self.server.holds_puts = False
        self.server.lose_puts.set()
        self.assertEqual(self.server.files, before)
        self.assertNotEqual(list((folder / "cache/uploads").glob(".levin-*")), [])
        self.levin(folder, "fit", "--trainer.max_steps=6", "--ckpt_path=last")
        self.assertEqual(self.saved(), ["epoch=0-step=4.ckpt", "epoch=0-step=6.ckpt", "last.ckpt"])
        self.assertEqual(list((folder / "cache/uploads").glob(".levin-*")), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
