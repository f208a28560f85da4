#!/usr/bin/env python3
"""Files by HTTP and S3, against a server that forgets, fails, cuts off, and checks signatures as AWS describes them.

    remote_files_test.py PROGRAM LEVIN
"""

import hashlib
import hmac
import http.server
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
import urllib.parse

PROGRAM, LEVIN = sys.argv[1:3]
KEY, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-west-3"


def signed(secret, date, region, text):
    """https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html"""
    key = ("AWS4" + secret).encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.requests = {}, []
        self.failures = 0       # so many requests are answered with 503
        self.cut_after = None   # the next answer ends after so many bytes
        self.needs_signature = False
        self.page = 1000
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut, self.server.cut_after = self.server.cut_after, None
        if cut is not None and body:
            self.wfile.write(body[:cut])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)
            return
        self.wfile.write(body)

    def is_signed(self, body):
        said = self.headers.get("Authorization", "")
        if not said.startswith("AWS4-HMAC-SHA256 "):
            return False
        fields = dict(part.strip().split("=", 1) for part in said.split(" ", 1)[1].split(","))
        key, date, region, service, _ = fields["Credential"].split("/")
        names = fields["SignedHeaders"].split(";")
        path, _, query = self.path.partition("?")
        pairs = sorted(part if "=" in part else part + "=" for part in query.split("&") if part)
        payload = self.headers.get("x-amz-content-sha256", hashlib.sha256(body).hexdigest())
        request = "\n".join([self.command, path, "&".join(pairs), *(f"{name}:{self.headers[name].strip()}" for name in names),
                             "", fields["SignedHeaders"], payload])
        scope = f"{date}/{region}/{service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])
        return (key, region) == (KEY, REGION) and hmac.compare_digest(signed(SECRET, date, region, text), fields["Signature"])

    def handle_call(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        if self.server.failures:
            self.server.failures -= 1
            return self.answer(503, b"busy")
        if self.server.needs_signature and not self.is_signed(body):
            return self.answer(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        path, _, query = self.path.partition("?")
        if self.command == "PUT":
            self.server.files[urllib.parse.unquote(path)] = body
            return self.answer(200)
        asked = urllib.parse.parse_qs(query)
        if "list-type" in asked:
            return self.list_keys(path, asked)
        content = self.server.files.get(urllib.parse.unquote(path))
        if content is None:
            return self.answer(404)
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        if self.headers.get("If-None-Match") == tag:
            return self.answer(304, headers=[("ETag", tag)])
        begin = self.headers.get("Range")
        if begin and self.headers.get("If-Range") == tag:
            first = int(begin.removeprefix("bytes=").rstrip("-"))
            return self.answer(206, content[first:], [("ETag", tag)])
        return self.answer(200, content, [("ETag", tag)])

    def list_keys(self, path, asked):
        bucket = path.rstrip("/")
        keys = sorted(name.removeprefix(bucket + "/") for name in self.server.files
                      if name.startswith(bucket + "/" + asked.get("prefix", [""])[0]))
        begin = int(asked.get("continuation-token", ["0"])[0])
        page = keys[begin:begin + self.server.page]
        more = begin + self.server.page
        token = f"<NextContinuationToken>{more}</NextContinuationToken>" if more < len(keys) else ""
        body = "".join(f"<Contents><Key>{key.replace('&', '&amp;')}</Key></Contents>" for key in page)
        self.answer(200, f"<ListBucketResult>{body}{token}</ListBucketResult>".encode())

    do_GET = do_PUT = handle_call


class RemoteFiles(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()) if hasattr(self, "enterContext")
                                   else tempfile.mkdtemp())
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
                            "LEVIN_DATA_CACHE": str(self.folder / "cache"), "HOME": str(self.folder),
                            "AWS_ENDPOINT_URL": self.server.url, "AWS_REGION": REGION}

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()

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

    def test_a_download_that_is_cut_off_goes_on_where_it_was(self):
        content = os.urandom(3_000_000)
        self.server.files["/large"] = content
        self.server.cut_after = 1_000_000
        self.assertEqual(self.copy("/large"), content)
        self.assertEqual(len(self.server.requests), 2)
        begin = int(self.server.requests[1][2]["Range"].removeprefix("bytes=").rstrip("-"))
        self.assertGreater(begin, 0)
        self.assertLessEqual(begin, 1_000_000)

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
