// Oniguruma's regular expressions in PCRE2's syntax: what they match is what Oniguruma matches.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "levin/text/tokenizer.h"

namespace levin::test {
namespace {

/// The parts that a pattern divides a text into: each byte is a token, and the pieces are joined by whole words.
std::vector<std::string> parts(const std::string& pattern, const std::string& text) {
  std::string escaped;
  for (const char letter : pattern)
    escaped += letter == '\\' || letter == '"' ? std::string("\\") + letter : std::string(1, letter);
  const Tokenizer tokenizer(R"({"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"},"decoder":{"type":"Fuse"},)"
                            R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":")" +
                                escaped + R"("},"behavior":"Isolated","invert":false}})",
                            "tokenizer.json");
  return std::vector<std::string>(tokenizer.encode(text).size());
}

/// How many parts.
std::size_t count(const std::string& pattern, const std::string& text) { return parts(pattern, text).size(); }

}  // namespace

TEST_CASE("blanks, digits and words are Unicode's") {
  CHECK(count(R"(\s)", "x\xc2\xa0x") == 3);      // a no-break space
  CHECK(count(R"(\s)", "x\xe1\xa0\x8ex") == 1);  // U+180E, a blank in PCRE2 alone
  CHECK(count(R"(\S+)", "ab cd") == 3);
  CHECK(count(R"(\d)", "x\xd9\xa3x") == 3);    // an Arabic digit
  CHECK(count(R"(\d)", "x\xc2\xbdx") == 1);    // ½
  CHECK(count(R"(\w+)", "-e\xcc\x81-") == 3);  // an accent belongs to the word
  CHECK(count(R"(\h+)", "xaf09gx") == 3);      // hexadecimal digits
  CHECK(count(R"(\w+)", "-x\xc2\xb2-") == 3);  // x²
  CHECK(count(R"([[:word:]]+)", "-x\xc2\xb2-") == 3);
  CHECK(parts(R"([[:word:]]+)", "x\xc2\xb2").size() == 2);  // where it is none
  CHECK(count(R"(\bb)", "ab b") == 2);
  CHECK(count(R"(\b\w)",
              "e\xcc\x81"
              "a") == 2);  // no boundary before an accent
}

TEST_CASE("properties have Oniguruma's names and meanings") {
  CHECK(count(R"(\p{Letter}+)", "1ab1") == 3);
  CHECK(count(R"(\p{^L}+)", "a11a") == 3);
  CHECK(count(R"(\P{Nd}+)", "1ab1") == 3);
  CHECK(count(R"([^\P{L}b]+)", "1aba1") == 5);
  CHECK(count(R"(\p{Han})", "a\xe6\xbc\xa2z") == 3);
  CHECK(count(R"(\p{Han})", "a\xe3\x80\x82z") == 1);  // 。 has the script Common, and Han among its extensions
  CHECK(count(R"([[:alpha:]]+)", "1ab1") == 3);
  CHECK(count(R"([[:punct:]]+)", "a\xe2\x82\xac+!b") == 3);  // €+!
  CHECK(count(R"(\p{Punct}+)", "a+!b") == 3);
  CHECK(count(R"([[:alpha:]]+)", "1\xcd\xa3z1") == 3);    // U+0363
  CHECK(count(R"(\p{Lower}+)", "1\xe1\x83\xbcz1") == 3);  // U+10FC
  CHECK_THROWS(count(R"(\p{NoSuchProperty})", "a"));
}

TEST_CASE("sets may have sets, and complements, among their members") {
  CHECK(count(R"([^\W_]+)", "-e\xcc\x81_e\xcc\x81-") == 5);
  CHECK(count(R"([\W_]+)", "a_-a") == 3);
  CHECK(count(R"([^\S\n]+)", "a \t\nb") == 3);
  CHECK(count(R"([a[bc]d]+)", "xabcdx") == 3);
  CHECK(count(R"([a[^bc]]+)", "bcadbc") == 3);
  CHECK(count(R"([^a[^bc]]+)", "dbcad") == 3);
  CHECK(count(R"([[:^alpha:]^]+)", "a^1a") == 3);
  CHECK(count(R"( ?[^(\s|[.,!?])]+)", "ab, (cd). ef") == 5);  // BLOOM's
  CHECK_THROWS(count(R"([^a[^\Wc]])", "a"));
  CHECK_THROWS(count("[a&&b]", "a"));
  CHECK_THROWS(count(std::string(60, '[') + "a" + std::string(60, ']'), "a"));
}

TEST_CASE("repetitions and options are Oniguruma's") {
  CHECK(count(R"(1{2}+)", "x11111x") == 3);  // as often as it goes: x, 1111, 1x
  CHECK(count(R"((?:12){1,}+)", "x121212x") == 3);
  CHECK(count(R"(1{,2})", "x111") == 3);
  CHECK(count("a{", "xa{x") == 3);
  CHECK(count(R"((?i:'S))", "x's") == 2);
  CHECK(count("(?m:a.b)", "xa\nbx") == 3);  // the point takes line breaks
  CHECK(count("a.b", "xa\nbx") == 1);
  CHECK(count("^a", "a\na") == 3);  // in each line
  CHECK(count(R"(\x{e9}|\u00e8)", "x\xc3\xa9\xc3\xa8x") == 4);
  CHECK(count(R"([\x{e9}\u00e8]+)", "x\xc3\xa9\xc3\xa8x") == 3);
  CHECK(count(R"([]a]+)", "x]ax") == 3);
}

}  // namespace levin::test
