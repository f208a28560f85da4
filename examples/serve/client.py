"""Sends the rows of a table to a server, from two connections, and compares its answers with what `levin predict` wrote.

    python3 client.py http://localhost:8765/predict digits.csv predictions.csv
"""

import concurrent.futures
import csv
import json
import sys
import time
import urllib.error
import urllib.request


def answered(url, rows):
    """The server's answer, once it listens."""
    body = json.dumps({"features": rows}).encode()
    for _ in range(600):
        try:
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{error}: {error.read().decode()}") from error
        except urllib.error.URLError:
            time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


def main(url, table, predictions):
    with open(table, encoding="utf-8") as file:
        rows = [[float(number) for number in line[:-1]] for line in csv.reader(file)]
    with open(predictions, encoding="utf-8") as file:
        expected = [int(line["digit"]) for line in csv.DictReader(file)]
    parts = [rows[begin:begin + 32] for begin in range(0, len(rows), 32)]
    with concurrent.futures.ThreadPoolExecutor(2) as connections:
        answers = connections.map(lambda part: answered(url, part)["digit"], parts)
        found = [digit for answer in answers for digit in answer]
    print(f"{len(found)} answers, {sum(one == other for one, other in zip(found, expected, strict=True))} as levin predict wrote them")
    return found != expected


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
