"""Tokenizers and texts to compare levin's with Hugging Face's: make_corpora.py FOLDER MEGABYTES. Needs `tokenizers`, `sentencepiece`.

Tokenizers are trained on the texts, with the parts that those of GPT-2, RoBERTa, Llama 3, Qwen 2, GPT-4o, BERT, T5, Llama 2 and
others have. Texts are of many scripts, code, emoji, broken blanks, digits and accents, all from fixed seeds."""
import io
import pathlib
import random
import sys
import sysconfig
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]

# Blocks with letters of scripts, all of Unicode 14 or older.
BLOCKS = [(0x41, 0x5a), (0x61, 0x7a), (0xc0, 0x17f), (0x1e00, 0x1eff), (0x370, 0x3ff), (0x400, 0x4ff), (0x531, 0x586),
          (0x5d0, 0x5ea), (0x620, 0x64a), (0x700, 0x74a), (0x904, 0x94f), (0x985, 0x9cc), (0xa05, 0xa4c), (0xb85, 0xbcd),
          (0xc05, 0xc4c), (0xe01, 0xe4e), (0xe81, 0xecd), (0xf40, 0xf7c), (0x1000, 0x104f), (0x10a0, 0x10ff), (0x1200, 0x135a),
          (0x13a0, 0x13f4), (0x1780, 0x17d3), (0x1820, 0x1877), (0x3041, 0x3096), (0x30a1, 0x30fe), (0x4e00, 0x9fa5),
          (0xac00, 0xd7a3), (0x10400, 0x1044f), (0x20000, 0x2a6d6)]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "❤️", "🏳️‍🌈", "☕", "1️⃣", "🦊", "𝔘𝔫𝔦", "①", "½", "ﬁ", "Å", "e\u0301", "\u1e9b\u0323", "İ", "ẞ", "㍿", "Ⅷ"]
BLANKS = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u2003", "\u3000", "\u200b", "\u200d", "\ufeff", "\x0b", "\x0c",
          "\x85", "\u2028", "\x00", "\x1f", "\ufffd", "\u180e"]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["'s", "'LL", "n't", "…", "—", "«", "»", "。", "、", "¿", "‽", "->", "::", "!!!", "'ſ"]


def word(draw):
    low, high = draw.choice(BLOCKS)
    letters = "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 9)))
    if draw.random() < 0.1:
        letters += chr(draw.randint(0x300, 0x36f))
    return draw.choice([letters, letters.lower(), letters.upper(), letters.title()])


def mixed_text(draw, size, english):
    parts, length = [], 0
    while length < size:
        kind = draw.random()
        if kind < 0.35:
            part = draw.choice(english)
        elif kind < 0.6:
            part = word(draw)
        elif kind < 0.7:
            part = str(draw.randint(0, 10 ** draw.randint(1, 12)))
        elif kind < 0.75:
            part = draw.choice(EMOJI)
        elif kind < 0.88:
            part = draw.choice(PUNCTUATION) * draw.choice([1, 1, 1, 2, 5])
        elif kind < 0.885:
            part = draw.choice(["<|endoftext|>", "[MASK]", " <mask> ", "[SEP]", "</s>", "token_x", "Normalized"])
        elif kind < 0.9:
            part = chr(draw.choice([draw.randint(0x80, 0x2fff), draw.randint(0x10000, 0x1f9ff)]))
            if not (part.isprintable() or part.isspace()):
                part = "?"
        else:
            part = draw.choice(BLANKS)
        separator = draw.choice([" ", " ", " ", "", draw.choice(BLANKS)])
        parts.append(part + separator)
        length += len(parts[-1].encode())
    return "".join(parts)


def corpora(megabytes):
    """Texts by name: mixed ones, and code, which is on every machine that has Python."""
    draw = random.Random(1)
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    code = []
    size = 0
    for file in sorted(library.glob("*.py")):
        code.append(file.read_text(errors="replace"))
        size += len(code[-1])
        if size > megabytes * 400_000:
            break
    english = sorted({word for word in "\n".join(code).split() if word.isalpha()})
    texts = {"code": "".join(code)}
    for number in range(4):
        texts[f"mixed_{number}"] = mixed_text(draw, int(megabytes * 250_000), english)
    texts["crlf"] = "\r\n".join(texts["mixed_0"][:50_000].split(" "))
    texts["empty"] = ""
    texts["blanks"] = "".join(draw.choice(BLANKS) for _ in range(20_000))
    return texts


def byte_level_bpe(pre_tokenizer, texts, size, post=None, normalizer=None, added=(), ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>", "<s>", "</s>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens(list(added))
    if post:
        tokenizer.post_processor = post
    return tokenizer


def with_split(*patterns):
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def template(first, last=None):
    single = f"{first[0]} $A" + (f" {last[0]}" if last else "")
    return processors.TemplateProcessing(single=single, special_tokens=[first] + ([last] if last else []))


def bert(texts, size, lowercase):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=specials, show_progress=False))
    tokenizer.post_processor = template(("[CLS]", 2), ("[SEP]", 3))
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def llama2(texts, size):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, limit_alphabet=1500, show_progress=False)
    tokenizer.train_from_iterator([text.replace("\n", " \n ").replace(" ", "▁ ") for text in texts], trainer)
    tokenizer.post_processor = template(("<s>", 1))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def unigram(texts, size):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    # Its trainer refuses more characters than tokens.
    latin = ["".join(letter for letter in text if letter < "\u0180") for text in texts]
    tokenizer.train_from_iterator(latin, trainers.UnigramTrainer(vocab_size=size, special_tokens=["<unk>", "</s>"], unk_token="<unk>",
                                                                 show_progress=False))
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def character_map(is_whole):
    """SentencePiece's map of characters for models of translation; or a small one of that kind, which replaces what EMOJI and BLANKS have."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    rules = {" ": BLANKS[5:14] + ["\u2028", "\ufeff"], "": ["\x00", "\x1f"]}
    kept = [chr(code) for low, high in ((0xa8, 0x17f), (0x1e00, 0x1eff), (0xfb00, 0xfb06), (0xff01, 0xff5e)) for code in range(low, high + 1)] + EMOJI
    for piece in {form for letter in kept for form in (letter, unicodedata.normalize("NFD", letter))}:
        if (normal := unicodedata.normalize("NFKC", piece)) != piece and len(piece) < 3:
            rules.setdefault(normal, []).append(piece)
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        for normal, pieces in rules.items():
            file.writelines(" ".join(f"{ord(letter):X}" for letter in piece) + "\t" + " ".join(f"{ord(letter):X}" for letter in normal) + "\n"
                            for piece in pieces if "\x00" not in piece)
        file.flush()
        choice = {"normalization_rule_name": "nmt_nfkc"} if is_whole else {"normalization_rule_tsv": file.name}
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a bc", "cab ab"]), model_writer=model, vocab_size=9, model_type="unigram",
                                                 minloglevel=2, **choice)
    return sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).normalizer_spec.precompiled_charsmap


def xlm_roberta(texts, size):
    """Its parts; T5 and ALBERT have the same normalizer."""
    tokenizer = unigram(texts, size)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(character_map(size > 1000)), normalizers.Replace(Regex(" {2,}"), " ")])
    return tokenizer


def plain(model, trainer, texts, pre_tokenizer, normalizer):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def tokenizers_of(texts, size):
    """Names and tokenizers; `texts` to train on."""
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    makers = {
        "gpt2": lambda: byte_level_bpe(gpt2, texts, size, post=processors.ByteLevel(trim_offsets=False)),
        "roberta": lambda: byte_level_bpe(pre_tokenizers.ByteLevel(add_prefix_space=True), texts, size,
                                  post=processors.RobertaProcessing(("</s>", 2), ("<s>", 1)),
                                  added=[AddedToken("<mask>", lstrip=True, special=True, normalized=False)]),
        "llama3": lambda: byte_level_bpe(with_split(LLAMA3), texts, size, ignore_merges=True,
                                 post=processors.Sequence([processors.ByteLevel(), template(("<s>", 1))]),
                                 added=[AddedToken("<|reserved_0|>", special=True, normalized=False)]),
        "qwen2": lambda: byte_level_bpe(with_split(QWEN2), texts, size, normalizer=normalizers.NFC()),
        "gpt4o": lambda: byte_level_bpe(with_split(GPT4O), texts, size),
        "deepseek": lambda: byte_level_bpe(with_split(*DEEPSEEK), texts, size),
        "falcon": lambda: byte_level_bpe(pre_tokenizers.Sequence([
            pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Digits(False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]), texts, size),
        "added": lambda: byte_level_bpe(gpt2, texts, size, normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]), added=[
            AddedToken("Normalized", normalized=True), AddedToken("token_x", single_word=True, normalized=False),
            AddedToken("  ", normalized=False), AddedToken("[MASK]", lstrip=True, rstrip=True, special=True, normalized=False)]),
        "bert": lambda: bert(texts, size, True),
        "bert_cased": lambda: bert(texts, size, False),
        "llama2": lambda: llama2(texts, size),
        "unigram": lambda: unigram(texts, min(size, 8000)),
        "xlm_roberta": lambda: xlm_roberta(texts, min(size, 8000)),
        "words": lambda: plain(models.WordLevel(unk_token="<unk>"),
                       trainers.WordLevelTrainer(vocab_size=size, special_tokens=["<unk>"], show_progress=False), texts,
                       pre_tokenizers.Whitespace(), normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()])),
        "suffix": lambda: plain(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
                        trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>"], end_of_word_suffix="</w>", limit_alphabet=400,
                                            show_progress=False), texts,
                        pre_tokenizers.Split(Regex(r"\s+"), "merged_with_previous"), normalizers.NFKD()),
    }
    for name, make in makers.items():
        yield name, make()
    words = makers["words"]().to_str()
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            tokenizer = Tokenizer.from_str(words)
            tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[aeiou\d]| "), behavior, invert)
            yield f"split_{behavior}{'_inverted' if invert else ''}", tokenizer


def main():
    folder, megabytes = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    texts = corpora(megabytes)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_bytes(text.encode("utf-8", "replace"))
    samples = [text[:150_000] for text in texts.values() if text]
    for name, tokenizer in tokenizers_of(samples, 12_000):
        tokenizer.save(str(folder / f"{name}.json"))


if __name__ == "__main__":
    main()
