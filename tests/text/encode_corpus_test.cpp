// Texts become token files: order, JSON lines, compressed files, pipes, empty and broken ones.
#include "levin/text/encode_corpus.h"

#include <sys/stat.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "levin/core/base/error.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;

namespace fs = std::filesystem;

namespace levin::test {
namespace {

using Tokens = std::vector<std::int64_t>;

const Tokenizer& tokenizer() {
  static const Tokenizer tokenizer(fs::path(LEVIN_SOURCE_DIR) / "tests/text/references/gpt2.json");
  return tokenizer;
}

fs::path put(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

/// The texts of the documents in a token file.
std::vector<std::string> texts_of(const fs::path& path) {
  const TokenFile file(path);
  std::vector<std::string> texts;
  std::int64_t begin = 0;
  for (const std::uint64_t end : file.document_ends()) {
    Tokens tokens(end - static_cast<std::uint64_t>(begin));
    file.read(begin, tokens);
    texts.push_back(tokenizer().decode(tokens, /*skip_special_tokens=*/false));
    begin = static_cast<std::int64_t>(end);
  }
  return texts;
}

}  // namespace

TEST_CASE("documents are in the order of the files, whatever the threads do") {
  const TemporaryFolder folder;
  CorpusOptions options{.output = folder / "out.bin", .append_token = "<|endoftext|>", .threads = 3};
  std::vector<std::string> expected;
  for (int index = 0; index < 40; ++index) {
    const std::string text = std::string(static_cast<std::size_t>(index * 37 % 41) * 100, 'a') + std::to_string(index);
    options.files.push_back(put(folder / (std::to_string(index) + ".txt"), text));
    expected.push_back(text + "<|endoftext|>");
  }
  const EncodedCorpus encoded = encode_corpus(tokenizer(), options);
  CHECK(texts_of(folder / "out.bin") == expected);
  CHECK(encoded.progress.documents == 40);
  CHECK(encoded.progress.files == 40);
  CHECK(encoded.progress.tokens == TokenFile(folder / "out.bin").size());
  CHECK(encoded.type == TokenType::kUint16);
}

TEST_CASE("line breaks stay, broken UTF-8 is counted, and empty files are documents") {
  const TemporaryFolder folder;
  const CorpusOptions options{
      .files = {put(folder / "a.txt", "a\r\nb\r\n"), put(folder / "b.txt", ""), put(folder / "c.txt", "x\xff\xfey")},
      .output = folder / "out.bin"};
  CHECK(encode_corpus(tokenizer(), options).replaced == 2);
  CHECK(texts_of(folder / "out.bin") == std::vector<std::string>{"a\r\nb\r\n", "", "x\xef\xbf\xbd\xef\xbf\xbdy"});
}

TEST_CASE("JSON lines have a document each") {
  const TemporaryFolder folder;
  const std::string lines = "{\"text\": \"one\\ntwo\", \"body\": \"B\"}\r\n\n{\"text\": \"\\u00e9\", \"body\": \"C\"}";
  CorpusOptions options{.files = {put(folder / "a.jsonl", lines)}, .output = folder / "out.bin"};
  encode_corpus(tokenizer(), options);
  CHECK(texts_of(folder / "out.bin") == std::vector<std::string>{"one\ntwo", "\xc3\xa9"});
  options.files = {put(folder / "a.txt", lines)};
  options.json_field = "body";
  encode_corpus(tokenizer(), options);
  CHECK(texts_of(folder / "out.bin") == std::vector<std::string>{"B", "C"});
  options.json_field = "missing";
  CHECK_THROWS_WITH(encode_corpus(tokenizer(), options), Contains("a.txt, line 1: is no JSON object with the text 'missing'"));
  options.json_field = "text";
  options.files = {put(folder / "b.txt", "{\"text\": \"a\"}\n{\"text\": 3}\n")};
  CHECK_THROWS_WITH(encode_corpus(tokenizer(), options), Contains("b.txt, line 2"));
  options.files = {put(folder / "c.jsonl", "{\"text\": \"a\xff\"}\n")};
  CHECK(encode_corpus(tokenizer(), options).replaced == 1);
  CHECK(texts_of(folder / "out.bin") == std::vector<std::string>{"a\xef\xbf\xbd"});
  options.files = {put(folder / "d.jsonl", R"({"text": "a\ud83dx"})")};  // half of a pair
  CHECK_THROWS_WITH(encode_corpus(tokenizer(), options), Contains("d.jsonl, line 1: is no JSON: ") && Contains("surrogate"));
}

TEST_CASE("text in UTF-16 is refused") {
  const TemporaryFolder folder;
  CorpusOptions options{.output = folder / "out.bin"};
  for (const char* name : {"a.txt", "a.jsonl"}) {
    options.files = {put(folder / name, std::string("\xff\xfe"
                                                    "a\0\n\0",
                                                    6))};
    CHECK_THROWS_WITH(encode_corpus(tokenizer(), options), Contains(name) && Contains("is text in UTF-16"));
  }
}

TEST_CASE("a corpus is not written over") {
  const TemporaryFolder folder;
  const fs::path file = put(folder / "a.txt", "text");
  CHECK_THROWS_WITH(encode_corpus(tokenizer(), {.files = {file}, .output = folder / "." / "a.txt"}),
                    Contains("is one of the files that are encoded"));
  CHECK(fs::file_size(file) == 4);
}

TEST_CASE("compressed files and pipes are read, and a pipe without a writer is not waited for") {
  const TemporaryFolder folder;
  gzFile compressed = gzopen((folder / "a.txt.gz").c_str(), "wb");
  REQUIRE(gzwrite(compressed, "compressed", 10) == 10);
  gzclose(compressed);
  const fs::path pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const CorpusOptions options{.files = {folder / "a.txt.gz", pipe}, .output = folder / "out.bin"};
  {
    const std::jthread writer([&] { put(pipe, "from a pipe"); });
    encode_corpus(tokenizer(), options);
  }
  CHECK(texts_of(folder / "out.bin") == std::vector<std::string>{"compressed", "from a pipe"});
  CHECK_THROWS_WITH(encode_corpus(tokenizer(), {.files = {pipe}, .output = folder / "none.bin"}),
                    Contains("it is a pipe, and no program writes to it"));
  CHECK_FALSE(fs::exists(folder / "none.bin"));
}

TEST_CASE("what cannot be encoded leaves nothing behind") {
  const TemporaryFolder folder;
  const fs::path text = put(folder / "a.txt", "text");
  CHECK_THROWS_WITH(encode_corpus(tokenizer(), {.files = {text}, .output = folder / "out.bin", .append_token = "<eos>"}),
                    Contains("the tokenizer has no token '<eos>'"));
  CHECK_THROWS_WITH(encode_corpus(tokenizer(), {.files = {text, folder / "missing.txt"}, .output = folder / "out.bin"}),
                    Contains("missing.txt"));
  CorpusOptions stopped{.files = {text}, .output = folder / "out.bin"};
  stopped.on_progress = [](const CorpusProgress& progress) { return progress.documents > 1; };
  CHECK_FALSE(encode_corpus(tokenizer(), stopped).is_whole);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

}  // namespace levin::test
