"""What texts.cpp measures, with Hugging Face's tokenizers. Usage: texts.py FOLDER run | texts.py FOLDER, which makes the files"""
import json
import os
import pathlib
import random
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
TEXTS, BYTES = 2000, 5000


def make(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    source = random.Random(1)
    words = ["".join(source.choices("etaoinshrdlcumwfgypbvké", k=source.randint(2, 9))) for _ in range(50_000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]  # as often as words of a language

    def text():
        return " ".join(word + source.choices(["", ",", ".", "!", " 42"], [20, 2, 2, 1, 1])[0] for word in source.choices(words, weights, k=1100))

    texts = [text().encode()[:BYTES].decode(errors="ignore") for _ in range(TEXTS)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=8000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts[:200], trainer)
    folder.mkdir(parents=True)
    (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    tokenizer.save(str(folder / "tokenizer.json"))


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    if len(sys.argv) < 3:
        make(folder)
        sys.exit()
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    texts = (folder / "texts.txt").read_text(encoding="utf-8").splitlines()
    started = time.perf_counter()
    tokens = sum(len(encoding.ids) for encoding in tokenizer.encode_batch_fast(texts))
    seconds = time.perf_counter() - started
    assert len(texts) == TEXTS and tokens > 0
    print(json.dumps({"value": seconds}), flush=True)
