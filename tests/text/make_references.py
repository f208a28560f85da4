"""Writes references/: small tokenizers of many kinds, texts, and what Hugging Face's library makes of them. Needs `tokenizers`, `sentencepiece`;
from the repository's root: python tests/text/make_references.py"""
import json
import pathlib
import random

from tokenizers import Tokenizer

from make_corpora import mixed_text, tokenizers_of

FOLDER = pathlib.Path(__file__).parent / "references"
ENGLISH = "the and of to Alice said in her that with little Queen King Rabbit thought very went would could".split()


def main():
    texts = {f"mixed_{seed}": mixed_text(random.Random(seed), 1000, ENGLISH) for seed in range(2)}
    texts |= {
        "empty": "",
        "blank": " ",
        "blanks": " \t\n\r\n   \u00a0\u3000 a  b\n\n\n c ",
        "english": "Curiouser and curiouser! cried Alice (she'll be 1,234,567 years old in 2024; isn't THAT odd?).",
        "code": "def f(x):\n    return x**2  # square\n\tfor i in range(10): print(f'{i:03d}')\r\n",
        "specials": "<|endoftext|>a<mask> b [MASK]  c</s><s> token_x token_xy Normalized normalized  [SEP]",
        "accents": "Crème Brûlée e\u0301 İstanbul ẞtraße ﬁ ½ Å 東京タワー 한국어 ไทย हिन्दी",
        "long": "a" * 300 + " " + "ab" * 60,
        "emoji": "👨‍👩‍👧‍👦🇩🇪👍🏽❤️ \U0001f98a!",
    }
    FOLDER.mkdir(exist_ok=True)
    expected = {}
    samples = [text for name, text in texts.items() if name not in ("long", "specials")]
    for name, tokenizer in tokenizers_of(samples, 600):
        tokenizer.save(str(FOLDER / f"{name}.json"), pretty=False)
        # Its parser rounds numbers, which decides between divisions of about the same score.
        tokenizer = Tokenizer.from_file(str(FOLDER / f"{name}.json"))
        expected[name] = {}
        for text_name, text in texts.items():
            ids = tokenizer.encode(text).ids
            case = {"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True)}
            # Where it makes a difference:
            if (plain := tokenizer.encode(text, add_special_tokens=False).ids) != ids:
                case["plain"] = plain
            if (whole := tokenizer.decode(ids, skip_special_tokens=False)) != case["decoded"]:
                case["decoded_whole"] = whole
            expected[name][text_name] = case
    (FOLDER / "expected.json").write_text(json.dumps({"texts": texts, "expected": expected}, separators=(",", ":"), ensure_ascii=False))


if __name__ == "__main__":
    main()
