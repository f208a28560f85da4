"""Writes text/unicode/older_characters.inc, the characters whose kind is another in Hugging Face's library than in utf8proc: its
tables are of Unicode 8 and 9, so characters that came later are no marks and no punctuation there. And uncombined_characters.inc,
those that no normal form changes or moves there. Needs `tokenizers` and utf8proc; from the repository's root:
python tests/text/make_older_characters.py"""
import collections
import ctypes
import pathlib

from tokenizers import normalizers, pre_tokenizers

OUTPUT = pathlib.Path(__file__).parents[2] / "text/unicode"
NAMES = {1: "kMarkCharacter", 2: "kNonspacingMarkCharacter", 4: "kPunctuationCharacter", 16: "kControlCharacter"}

utf8proc = ctypes.CDLL("libutf8proc.so.2")


def classes_of_utf8proc(code):
    """As in characters.cpp."""
    category = utf8proc.utf8proc_category(ctypes.c_int32(code))
    if category == 6:
        return 3
    return {7: 1, 8: 1, 26: 16, 27: 16, 29: 16}.get(category, 4 if 12 <= category <= 18 else 0)


def normal_form(text, options):
    """utf8proc's, of options as in characters.cpp."""
    buffer = ctypes.POINTER(ctypes.c_ubyte)()
    encoded = text.encode()
    length = utf8proc.utf8proc_map(encoded, ctypes.c_ssize_t(len(encoded)), ctypes.byref(buffer), options)
    return bytes(buffer[:length]).decode()


def is_uncombined(code):
    """True where a character, alone and among accents, is changed by utf8proc alone."""
    stable, compatible, decompose = 2, 4, 16
    for text in (chr(code), f"a\u0315{chr(code)}", f"a{chr(code)}\u0327"):
        for form, options in ((normalizers.NFD(), decompose), (normalizers.NFKD(), decompose | compatible)):
            ours = normal_form(text, options | stable)
            if ours != text and form.normalize_str(text) == text:
                return True
    return False


def ranges_of(codes):
    ranges = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return ranges


def main():
    valid = [code for code in range(0x80, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    lines = [f"{{0x{first:x}, 0x{last:x}}},\n" for first, last in ranges_of(filter(is_uncombined, valid))]
    (OUTPUT / "uncombined_characters.inc").write_text("// Written by tests/text/make_older_characters.py.\n" + "".join(lines))
    accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    cleaning = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    marks = normalizers.StripAccents()
    punctuation = pre_tokenizers.Punctuation()
    differ = collections.OrderedDict()
    for code in valid:
        if code == 0xFFFD:  # is removed for another reason
            continue
        letter = chr(code)
        theirs = ((marks.normalize_str(letter) == "") * 1 | (accents.normalize_str(letter) == "") * 2
                  | (len(punctuation.pre_tokenize_str(f"a{letter}a")) > 1) * 4 | (cleaning.normalize_str(letter) == "") * 16)
        if flipped := theirs ^ classes_of_utf8proc(code):
            differ[code] = flipped
    ranges = []
    for code, flipped in differ.items():
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == flipped:
            ranges[-1][1] = code
        else:
            ranges.append([code, code, flipped])
    lines = [f"{{0x{first:x}, 0x{last:x}, {' | '.join(name for bit, name in NAMES.items() if flipped & bit)}}},\n"
             for first, last, flipped in ranges]
    (OUTPUT / "older_characters.inc").write_text("// Written by tests/text/make_older_characters.py.\n" + "".join(lines))


if __name__ == "__main__":
    main()
