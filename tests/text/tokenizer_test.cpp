// Tokens of Hugging Face's library, recorded by make_references.py, and what is wrong or missing in a tokenizer's file.
#include "levin/text/tokenizer.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "levin/core/base/error.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;
using nlohmann::json;

namespace fs = std::filesystem;

namespace levin::test {
namespace {

const fs::path kReferences = fs::path(LEVIN_SOURCE_DIR) / "tests/text/references";

using Tokens = std::vector<std::int64_t>;

/// The recorded byte-level tokenizer, changed.
Tokenizer changed(const std::string& name, const std::string& path, const json& value) {
  json file = json::parse(read_text(kReferences / (name + ".json")));
  file[json::json_pointer(path)] = value;
  return {file.dump(), "tokenizer.json"};
}

/// What a change of a tokenizer's file is an error of.
std::string error_of_change(const std::string& path, const json& value, const std::string& name = "gpt2") {
  try {
    changed(name, path, value);
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("tokens and texts are those of Hugging Face's library") {
  const json recorded = json::parse(read_text(kReferences / "expected.json"));
  std::size_t cases = 0;
  for (const auto& [name, texts] : recorded["expected"].items()) {
    const Tokenizer tokenizer(kReferences / (name + ".json"));
    for (const auto& [text_name, expected] : texts.items()) {
      CAPTURE(name, text_name);
      const auto text = recorded["texts"][text_name].get<std::string>();
      const auto ids = expected["ids"].get<Tokens>();
      CHECK(tokenizer.encode(text) == ids);
      CHECK(tokenizer.encode(text, /*special_tokens=*/false) == expected.value("plain", ids));
      const auto decoded = expected["decoded"].get<std::string>();
      CHECK(tokenizer.decode(ids) == decoded);
      CHECK(tokenizer.decode(ids, /*skip_special_tokens=*/false) == expected.value("decoded_whole", decoded));
      ++cases;
    }
  }
  CHECK(cases > 200);
}

TEST_CASE("a byte that is no UTF-8 becomes U+FFFD, one for each part that a character could begin with") {
  const Tokenizer tokenizer(kReferences / "gpt2.json");
  const auto replaced = [&](const std::string& bytes) {
    Tokens tokens;
    const std::int64_t count = tokenizer.encode_to(tokens, bytes);
    return std::pair(tokenizer.decode(tokens), count);
  };
  const std::string kReplacement = "\xef\xbf\xbd";
  CHECK(replaced("a\xff\xfe z") == std::pair("a" + kReplacement + kReplacement + " z", std::int64_t{2}));
  CHECK(replaced("\xe2\x82") == std::pair(kReplacement, std::int64_t{1}));                 // the beginning of €
  CHECK(replaced("\xf0\x9f\x98x") == std::pair(kReplacement + "x", std::int64_t{1}));      // that of an emoji
  CHECK(replaced("\xc0\xaf") == std::pair(kReplacement + kReplacement, std::int64_t{2}));  // an overlong form
  CHECK(replaced("\xed\xa0\x80") == std::pair(kReplacement + kReplacement + kReplacement, std::int64_t{3}));  // a surrogate
  CHECK(replaced("\xe2\x82\xac") == std::pair(std::string("\xe2\x82\xac"), std::int64_t{0}));
}

TEST_CASE("tokens are found by name and number") {
  const Tokenizer tokenizer(kReferences / "roberta.json");
  CHECK(tokenizer.token_to_id("<s>") == 1);
  CHECK(tokenizer.id_to_token(1) == "<s>");
  CHECK(tokenizer.token_to_id("<mask>") == tokenizer.vocab_size() - 1);
  CHECK(!tokenizer.token_to_id("no such token"));
  CHECK(!tokenizer.id_to_token(tokenizer.vocab_size()));
  CHECK(!tokenizer.id_to_token(-1));
  CHECK(tokenizer.decode(Tokens{-1, 1 << 30}).empty());
}

TEST_CASE("threads encode at the same time") {
  const Tokenizer tokenizer(kReferences / "llama3.json");
  const json recorded = json::parse(read_text(kReferences / "expected.json"));
  const auto text = recorded["texts"]["mixed_0"].get<std::string>();
  const auto expected = recorded["expected"]["llama3"]["mixed_0"]["ids"].get<Tokens>();
  std::array<Tokens, 4> results;
  {
    std::vector<std::jthread> threads;
    for (Tokens& result : results) threads.emplace_back([&] { result = tokenizer.encode(text); });
  }
  for (const Tokens& result : results) CHECK(result == expected);
}

TEST_CASE("a damaged map of characters is an error, or replaces nothing") {
  const auto error = [](const std::string& map) {
    return error_of_change("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", map}});
  };
  CHECK_THAT(error("?"), Contains("/normalizer/precompiled_charsmap is no map of characters in base64"));
  CHECK_THAT(error("CAAAAA=="), Contains("is a map of characters that is cut off"));
  CHECK_THAT(error("BAAAAAAAAAD/"), Contains("has texts that are no UTF-8"));
  const Tokenizer gpt2(kReferences / "gpt2.json");
  // A unit that leads far beyond the array, and one whose text would begin within a character.
  for (const std::string map : {"BAAAAAD///8=", "DAAAAACAAQBhDQAAAQAAAMOp"}) {
    CAPTURE(map);
    const Tokenizer tokenizer = changed("gpt2", "/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", map}});
    CHECK(tokenizer.encode("abc a\xc3\xa9") == gpt2.encode("abc a\xc3\xa9"));
  }
}

TEST_CASE("a part that is not supported is named by its path in the file") {
  CHECK_THAT(error_of_change("/pre_tokenizer/type", "UnicodeScripts"),
             Contains("/pre_tokenizer/type the pre-tokenizer 'UnicodeScripts' is not supported"));
  CHECK_THAT(error_of_change("/normalizer", {{"type", "Unknown"}}), Contains("/normalizer/type the normalizer 'Unknown'"));
  CHECK_THAT(error_of_change("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Odd"}}}}}),
             Contains("/normalizer/normalizers/1/type the normalizer 'Odd'"));
  CHECK_THAT(error_of_change("/decoder/type", "CTC"), Contains("/decoder/type the decoder 'CTC'"));
  CHECK_THAT(error_of_change("/post_processor/type", "Other"), Contains("/post_processor/type the post-processor 'Other'"));
  CHECK_THAT(error_of_change("/model/type", "Other"), Contains("/model/type the model 'Other'"));
  CHECK_THAT(error_of_change("/model/dropout", 0.1), Contains("/model/dropout dropout"));
  CHECK_THAT(error_of_change("/pre_tokenizer/pretokenizers/0/pattern/Regex", "a(", "llama3"),
             Contains("/pre_tokenizer/pretokenizers/0/pattern/Regex") && Contains("parenthesis"));
  CHECK_THAT(error_of_change("/pre_tokenizer/pretokenizers/0/pattern/Regex", "[a&&b]", "llama3"),
             Contains("an intersection of sets"));
  CHECK_THAT(error_of_change("/pre_tokenizer/pretokenizers/0/behavior", "Odd", "llama3"), Contains("the behavior 'Odd'"));
}

TEST_CASE("a damaged tokenizer is an error that names the place") {
  CHECK_THAT(error_of_change("/model/vocab/!", -1), Contains("/model/vocab/! is no number of a token"));
  CHECK_THAT(error_of_change("/model/vocab/!", 1e10), Contains("/model/vocab/! is no number of a token"));
  CHECK_THAT(error_of_change("/model/vocab", {"a", "b"}), Contains("/model/vocab is no object"));
  CHECK_THAT(error_of_change("/model/merges/0", "abc"), Contains("/model/merges/0 is no pair of tokens"));
  CHECK_THAT(error_of_change("/model/merges/0", {"a", "€"}), Contains("/model/merges/0 needs '€', which the vocabulary lacks"));
  CHECK_THAT(error_of_change("/model/merges", 3), Contains("/model/merges is no list"));
  CHECK_THAT(error_of_change("/added_tokens/0/content", 3), Contains("/added_tokens/0/content is no text"));
  json nested = {{"type", "NFC"}};
  for (int depth = 0; depth < 300; ++depth) nested = {{"type", "Sequence"}, {"normalizers", json::array({nested})}};
  CHECK_THAT(error_of_change("/normalizer", nested), Contains("is nested too deeply"));
  CHECK_THROWS_WITH(Tokenizer("[1]", "x.json"), Contains("'x.json' cannot be read as a tokenizer: it is no object"));
  CHECK_THROWS_WITH(Tokenizer("{", "x.json"), Contains("it is not JSON"));
  CHECK_THROWS_WITH(Tokenizer("{}", "x.json"), Contains("the whole lacks 'model'"));
  CHECK_THROWS_WITH(Tokenizer(fs::path("/no/such.json")), Contains("/no/such.json"));
}

TEST_CASE("an unknown character without an unknown token is an error where the model needs one") {
  const Tokenizer words = changed("words", "/model/unk_token", "[missing]");
  CHECK_THROWS_WITH(words.encode("xyzzy"), Contains("/model/unk_token: '[missing]' is needed, and not in the vocabulary"));
}

}  // namespace levin::test
