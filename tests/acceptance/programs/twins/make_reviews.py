#!/usr/bin/env python3
"""Writes train-0.jsonl, train-1.jsonl and val.jsonl: reviews of 3 to 60 words, whose tone some of them tell."""

import json
import random

GOOD = "fine lovely warm bright honest quick clean".split()
BAD = "dull cold broken slow noisy bland late".split()
OTHER = "the a it was very and with in room day food seat film of my".split()


def write(name, count):
    with open(name, "w") as file:
        for _ in range(count):
            is_good, length = random.random() < 0.5, random.randint(3, 60)
            words = random.choices(OTHER, k=length)
            for _ in range(1 + length // 8):
                words[random.randrange(length)] = random.choice(GOOD if is_good else BAD)
            file.write(json.dumps({"text": " ".join(words), "good": int(is_good)}) + "\n")


if __name__ == "__main__":
    random.seed(3)
    write("train-0.jsonl", 300)
    write("train-1.jsonl", 300)
    write("val.jsonl", 100)
