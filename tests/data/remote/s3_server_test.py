#!/usr/bin/env python3
"""Data and checkpoints of an S3 server of others, which checks AWS's signatures: rclone's.

    s3_server_test.py RCLONE PROGRAM LEVIN
"""

import os
import pathlib
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest

RCLONE, PROGRAM, LEVIN = sys.argv[1:4]
KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


class S3Server(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bucket = self.folder / "served/bucket"
        self.bucket.mkdir(parents=True)
        url = self.start_server()
        self.environment = {**self.without_settings(), "LEVIN_DATA_CACHE": str(self.folder / "cache"), "HOME": str(self.folder),
                            "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}

    @staticmethod
    def without_settings():
        return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "RCLONE_"))}

    def start_server(self):
        """Its address, once it answers: it says so itself."""
        address = f"127.0.0.1:{free_port()}"
        server = subprocess.Popen([RCLONE, "serve", "s3", "--addr", address, "--auth-key", f"{KEY},{SECRET}", "--dir-cache-time", "0s",
                                   self.folder / "served"],
                                  env={**self.without_settings(), "HOME": str(self.folder)}, stderr=subprocess.PIPE, text=True)
        limit = threading.Timer(30, server.kill)
        limit.start()
        said = []
        for line in server.stderr:
            said.append(line)
            if address in line:
                break
        limit.cancel()
        self.assertIsNone(server.poll(), "".join(said))
        self.reader = threading.Thread(target=server.stderr.read)  # or the server would wait for room
        self.reader.start()
        self.addCleanup(self.stop, server)
        return f"http://{address}"

    def stop(self, server):
        server.kill()
        server.wait()
        self.reader.join()
        server.stderr.close()

    def run_program(self, *words, status=0):
        ended = subprocess.run([PROGRAM, *words], env=self.environment, capture_output=True, text=True, timeout=100)
        self.assertEqual(ended.returncode, status, ended.stderr)
        return ended.stdout.splitlines() if status == 0 else ended.stderr

    def fit(self, *words):
        ended = subprocess.run([LEVIN, "fit", "--model", "MLPClassifier", "--data", "TableDataModule", *words],
                               env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=100)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout + ended.stderr

    def test_keys_of_any_letters_are_read_and_written(self):
        own = self.folder / "own"
        own.write_bytes(b"weights" * 100_000)
        for key in ("plain.txt", "a folder/Größe 1+1.txt", "a&b/100%.txt", "a+b/c=d,e;f@g:h!.txt", "(1)/it's~a_'key'.txt", "日本/語.txt"):
            with self.subTest(key):
                file = self.bucket / key
                file.parent.mkdir(exist_ok=True)
                file.write_text(key)
                (copy,) = self.run_program("copy", f"s3://bucket/{key}")
                self.assertEqual(pathlib.Path(copy).read_text(), key)
                self.assertEqual(self.run_program("list", f"s3://bucket/{key[:-5]}*.txt"), [f"s3://bucket/{key}"])
                self.run_program("upload", str(own), f"s3://bucket/{key}")
                (copy,) = self.run_program("copy", f"s3://bucket/{key}")
                self.assertEqual(pathlib.Path(copy).read_bytes(), own.read_bytes())

    def test_a_table_in_more_files_than_a_page_of_a_listing_holds(self):
        count = 1100
        for number in range(count):
            (self.bucket / f"part-{number:04}.csv").write_text(f"x,label\n{number},{number % 3}\n")
        (self.bucket / "other.csv").write_text("no table")
        found = self.run_program("list", "s3://bucket/part-*.csv")
        self.assertEqual(found, [f"s3://bucket/part-{number:04}.csv" for number in range(count)])
        self.fit("--data.path", "s3://bucket/part-*.csv", "--trainer.max_epochs", "1")
        self.assertEqual(sum(file.name.endswith(".csv") for file in (self.folder / "cache").iterdir()), count)

    def test_shards_are_read(self):
        for shard, mode in enumerate(("w", "w:gz")):
            with tarfile.open(self.bucket / f"train-{shard}.tar", mode) as tar:
                for number in range(2):
                    file = self.folder / f"{shard}{number}.txt"
                    file.write_text(f"text {shard}")
                    tar.add(file, file.name)
        self.assertEqual(self.run_program("samples", "s3://bucket/train-*.tar"), ["00 text 0", "01 text 0", "10 text 1", "11 text 1"])

    def test_a_run_goes_on_from_a_checkpoint_that_was_uploaded(self):
        (self.bucket / "table.csv").write_text("x,label\n" + "".join(f"{number},{number % 3}\n" for number in range(60)))
        data = ["--data.path", "s3://bucket/table.csv"]
        self.fit(*data, "--trainer.max_epochs", "1")
        (checkpoint,) = self.folder.rglob("*.ckpt")
        self.run_program("upload", str(checkpoint), "s3://bucket/runs/eins zwei/last.ckpt")
        self.assertEqual((self.bucket / "runs/eins zwei/last.ckpt").read_bytes(), checkpoint.read_bytes())
        said = self.fit(*data, "--trainer.max_epochs", "3", "--ckpt_path", "s3://bucket/runs/eins zwei/last.ckpt")
        self.assertIn("last.ckpt", said)

    def test_what_is_refused_is_said_without_the_key(self):
        (self.bucket / "a.txt").write_text("content")
        own = self.folder / "own"
        own.write_text("mine")
        self.environment["AWS_SECRET_ACCESS_KEY"] = "geheim/1+2"
        for words in (("copy", "s3://bucket/a.txt"), ("list", "s3://bucket/*.txt"), ("upload", str(own), "s3://bucket/a.txt")):
            with self.subTest(words[0]):
                said = self.run_program(*words, status=1)
                self.assertIn("status 403", said)
                self.assertIn("AWS_ACCESS_KEY_ID", said)
                self.assertNotIn("geheim", said)
                self.assertNotIn(KEY, said)
        self.assertEqual((self.bucket / "a.txt").read_text(), "content")
        self.environment["AWS_SECRET_ACCESS_KEY"] = SECRET
        self.assertIn("status 404", self.run_program("copy", "s3://bucket/none.txt", status=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=1)
