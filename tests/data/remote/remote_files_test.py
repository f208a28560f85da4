#!/usr/bin/env python3
"""Files by HTTP and S3, against a server that forgets, fails, cuts off, and checks signatures as AWS describes them.

    remote_files_test.py PROGRAM LEVIN
"""

import hashlib
import io
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import tarfile
import time
import unittest

from s3_server import KEY, SECRET, Handler, WithServer

PROGRAM, LEVIN = sys.argv[1:3]


class RemoteFiles(WithServer):
    def run_program(self, *words, status=0):
        ended = subprocess.run([PROGRAM, *words], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, status, ended.stderr)
        return ended.stdout.splitlines() if status == 0 else ended.stderr

    def copy(self, path):
        (file,) = self.run_program("copy", self.server.url + path)
        return pathlib.Path(file).read_bytes()

    def test_a_file_is_downloaded_once_and_again_when_it_changes(self):
        self.server.files["/a/train.csv"] = b"one"
        self.assertEqual(self.copy("/a/train.csv"), b"one")
        self.assertEqual(self.copy("/a/train.csv"), b"one")
        self.assertEqual(self.server.requests[1][2]["If-None-Match"], f'"{hashlib.md5(b"one").hexdigest()}"')
        self.server.files["/a/train.csv"] = b"two"
        self.assertEqual(self.copy("/a/train.csv"), b"two")
        self.server.files["/empty"] = b""
        self.assertEqual(self.copy("/empty"), b"")

    def test_a_certificate_is_checked_against_an_authority_of_the_users_own(self):
        certificate, key = str(self.folder / "certificate.pem"), str(self.folder / "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", certificate, "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.server.files["/a.csv"] = b"one"
        address = self.server.url.replace("http://", "https://") + "/a.csv"
        self.assertIn("certificate", self.run_program("copy", address, status=1))
        self.environment["AWS_CA_BUNDLE"] = certificate
        (file,) = self.run_program("copy", address)
        self.assertEqual(pathlib.Path(file).read_bytes(), b"one")

    def test_a_download_that_is_cut_off_goes_on_where_it_was(self):
        content = os.urandom(3_000_000)
        self.server.files["/large"] = content
        self.server.cut_after = 1_000_000
        self.assertEqual(self.copy("/large"), content)
        self.assertEqual(len(self.server.requests), 2)
        begin = int(self.server.requests[1][2]["Range"].removeprefix("bytes=").rstrip("-"))
        self.assertGreater(begin, 0)
        self.assertLessEqual(begin, 1_000_000)

    def test_a_part_that_does_not_fit_is_not_joined_to_what_is_there(self):
        content, other = os.urandom(300_000), os.urandom(300_000)
        answers = {
            "with status 200": lambda first, content, tag: (200, first, tag, content),
            "from the beginning": lambda first, content, tag: (206, 0, tag, content),
            "from elsewhere": lambda first, content, tag: (206, first + 7, tag, content),
            "of another version": lambda first, content, tag: (206, first, '"other"', other),
            "of another size": lambda first, content, tag: (206, first, tag, content + b"more"),
        }
        for number, (case, answer) in enumerate(answers.items()):
            with self.subTest(case):
                self.server.files[f"/large{number}"] = content
                self.server.cut_after, self.server.answer_part = 100_000, answer
                self.server.requests.clear()
                self.assertTrue(self.copy(f"/large{number}") == content)
                # The last one of those that do not fit is for the whole file.
                self.assertEqual(["Range" in headers for _, _, headers in self.server.requests],
                                 [False, True] if number == 0 else [False, True, False])

    def test_what_will_not_help_is_not_tried_again(self):
        said = self.run_program("copy", self.server.url + "/a file.csv", status=1)
        self.assertRegex(said, "illegal format|alformed")
        self.assertNotIn("attempts", said)
        for target, problem in ((self.server.url + "/again", "redirect"), ("file:///etc/passwd", "rotocol")):
            self.server.redirect = target
            self.server.requests.clear()
            self.assertIn(problem, self.run_program("copy", self.server.url + "/a.csv", status=1))
            self.assertLessEqual(len(self.server.requests), 21)

    def test_a_run_that_waits_for_a_server_ends_at_a_signal(self):
        self.server.is_silent = True
        for path in (self.server.url + "/table.csv", "s3://bucket/part-*.csv"):
            self.server.requests.clear()
            run = subprocess.Popen([LEVIN, "fit", "--model", "MLPClassifier", "--data", "TableDataModule", "--data.path", path],
                                   env=self.environment, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            while not self.server.requests and run.poll() is None:
                time.sleep(0.05)
            run.send_signal(signal.SIGINT)
            said, _ = run.communicate(timeout=15)  # the server would be waited for for two minutes
            self.assertEqual(run.returncode, 130, said)
        self.server.lose_puts.set()

    def test_what_was_cut_off_is_thrown_away_when_the_file_has_changed(self):
        self.server.files["/large"] = b"a" * 2_000_000
        self.server.cut_after = 500_000
        self.server.failures = 0
        original = Handler.answer

        def answer_and_change(handler, *arguments, **named):
            original(handler, *arguments, **named)
            self.server.files["/large"] = b"b" * 1_000_000

        Handler.answer = answer_and_change
        try:
            self.assertEqual(self.copy("/large"), b"b" * 1_000_000)
        finally:
            Handler.answer = original

    def test_a_server_that_is_busy_is_asked_again(self):
        self.server.files["/a"] = b"content"
        self.server.failures = 2
        self.assertEqual(self.copy("/a"), b"content")
        self.assertEqual(len(self.server.requests), 3)

    def test_errors_say_what_to_do_and_no_secrets(self):
        said = self.run_program("copy", self.server.url.replace("http://", "http://me:geheim@") + "/none?X-Amz-Signature=abc", status=1)
        self.assertIn("there is no such file (status 404)", said)
        self.assertNotIn("geheim", said)
        self.assertNotIn("abc", said)
        self.server.needs_signature = True
        said = self.run_program("copy", "s3://bucket/key", status=1)
        self.assertIn("status 403", said)
        self.assertIn("AWS_ACCESS_KEY_ID", said)
        self.assertIn("names no bucket", self.run_program("copy", "s3:///key", status=1))

    def test_the_cache_keeps_its_bound_by_what_was_used_last(self):
        self.environment["LEVIN_DATA_CACHE_GB"] = "0.0025"
        for name in "abc":
            self.server.files[f"/{name}"] = name.encode() * 1_000_000
            self.copy(f"/{name}")
        kept = sorted(file.name[-1] for file in (self.folder / "cache").iterdir() if file.suffix == "" )
        self.assertEqual(kept, ["b", "c"])

    def test_processes_download_a_file_once(self):
        self.server.files["/shared"] = os.urandom(1_000_000)
        runs = [subprocess.Popen([PROGRAM, "copy", self.server.url + "/shared"], env=self.environment, stdout=subprocess.DEVNULL)
                for _ in range(4)]
        self.assertEqual([run.wait(60) for run in runs], [0] * 4)
        self.assertEqual(sum("If-None-Match" not in headers for _, _, headers in self.server.requests), 1)

    def test_s3_is_asked_with_signatures(self):
        self.server.needs_signature = True
        self.environment.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)
        self.server.files["/bucket/a folder/ä+1.txt"] = b"signed"
        (file,) = self.run_program("copy", "s3://bucket/a folder/ä+1.txt")
        self.assertEqual(pathlib.Path(file).read_bytes(), b"signed")
        own = self.folder / "model.ckpt"
        own.write_bytes(b"weights" * 1000)
        self.run_program("upload", str(own), "s3://bucket/runs/model.ckpt")
        self.assertEqual(self.server.files["/bucket/runs/model.ckpt"], own.read_bytes())
        self.environment["AWS_SECRET_ACCESS_KEY"] = "wrong"
        self.assertIn("status 403", self.run_program("copy", "s3://bucket/runs/model.ckpt", status=1))

    def test_credentials_stand_in_a_file_too(self):
        self.server.needs_signature = True
        (self.folder / ".aws").mkdir()
        (self.folder / ".aws/credentials").write_text(
            f"[default]\naws_access_key_id = other\naws_secret_access_key = other\n"
            f"[work]\naws_access_key_id={KEY}\naws_secret_access_key = {SECRET}\naws_session_token = session\n")
        self.environment["AWS_PROFILE"] = "work"
        self.server.files["/bucket/a"] = b"content"
        self.run_program("copy", "s3://bucket/a")
        self.assertEqual(self.server.requests[0][2]["X-Amz-Security-Token"], "session")

    def test_patterns_are_listed_page_by_page(self):
        self.server.needs_signature = True
        self.server.page = 2
        self.environment.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)
        for name in ("train-1.tar", "train-2.tar", "train-3.tar", "train-x.txt", "a&b/train-4.tar", "val-1.tar"):
            self.server.files[f"/bucket/shards/{name}"] = b""
        found = self.run_program("list", "s3://bucket/shards/train-*.tar")
        self.assertEqual(found, [f"s3://bucket/shards/train-{number}.tar" for number in (1, 2, 3)])
        self.assertEqual(self.run_program("list", "s3://bucket/shards/a&b/*"), ["s3://bucket/shards/a&b/train-4.tar"])
        self.assertIn("no file matches", self.run_program("list", "s3://bucket/none/*.tar", status=1))
        self.assertEqual(self.run_program("list", "https://host/{a,b}-{08..11}.tar"),
                         [f"https://host/{letter}-{number:02}.tar" for letter in "ab" for number in range(8, 12)])

    def test_shards_are_read_from_a_server(self):
        for shard in range(2):
            tar = io.BytesIO()
            with tarfile.open(fileobj=tar, mode="w:gz" if shard else "w") as writer:
                for number in range(2):
                    entry = tarfile.TarInfo(f"{shard}{number}.txt")
                    entry.size = 4
                    writer.addfile(entry, io.BytesIO(b"text"))
            self.server.files[f"/shards/{shard}.tar"] = tar.getvalue()
        found = self.run_program("samples", self.server.url + "/shards/{0..1}.tar")
        self.assertEqual(found, ["00 text", "01 text", "10 text", "11 text"])

    def test_a_run_trains_on_a_table_of_a_server(self):
        rows = "".join(f"{number},{number % 3}\n" for number in range(30))
        self.server.files["/table.csv"] = f"x,label\n{rows}".encode()
        ended = subprocess.run([LEVIN, "fit", "--model", "MLPClassifier", "--data", "TableDataModule", "--data.path",
                                self.server.url + "/table.csv", "--trainer.max_epochs", "1"],
                               env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=100)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual(self.server.requests[0][1], "/table.csv")

    def test_an_address_with_a_query_has_the_ending_of_its_path_and_its_signature_is_masked(self):
        rows = "".join(f"{number}\t{number % 3}\n" for number in range(30))
        self.server.files["/table.tsv"] = f"x\tlabel\n{rows}".encode()
        ended = subprocess.run([LEVIN, "fit", "--model", "MLPClassifier", "--data", "TableDataModule", "--data.path",
                                self.server.url + "/table.tsv?X-Amz-Signature=abcdef&download=true", "--trainer.max_epochs", "1"],
                               env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=100)
        said = ended.stdout + ended.stderr
        self.assertEqual(ended.returncode, 0, said)
        written = b"".join(file.read_bytes() for file in (self.folder / "logs").rglob("*") if file.is_file())
        self.assertNotIn("abcdef", said)
        self.assertTrue(b"X-Amz-Signature=***&download=true" in written and b"abcdef" not in written)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
