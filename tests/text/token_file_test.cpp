// Token files: layouts, indexes, what is damaged, and how they are written.
#include "levin/text/token_file.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/text/token_writer.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;

namespace fs = std::filesystem;

namespace levin::test {
namespace {

using Tokens = std::vector<std::int64_t>;

template <class Number>
void put(const fs::path& file, const std::vector<Number>& numbers, std::size_t extra = 0) {
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(numbers.data()), static_cast<std::streamsize>(numbers.size() * sizeof(Number)));
  stream << std::string(extra, 'x');
}

/// A file of llm.c.
void put_llm_c(const fs::path& file, std::int32_t magic, std::int32_t version, std::int32_t count, const std::string& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  put(file, header);
  std::ofstream(file, std::ios::binary | std::ios::app) << tokens;
}

Tokens all_of(const TokenFile& file) {
  Tokens tokens(static_cast<std::size_t>(file.size()));
  file.read(0, tokens);
  return tokens;
}

void change_byte(const fs::path& file, std::size_t place) {
  std::string bytes = read_text(file);
  bytes.at(place) = static_cast<char>(bytes[place] ^ 0x5a);
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("raw files are read as nanoGPT writes them") {
  const TemporaryFolder folder;
  put<std::uint16_t>(folder / "a.bin", {0, 50256, 65535});
  CHECK(all_of(TokenFile(folder / "a.bin")) == Tokens{0, 50256, 65535});
  put<std::uint32_t>(folder / "b.bin", {7, 4'000'000'000});
  CHECK(all_of(TokenFile(folder / "b.bin", TokenType::kUint32)) == Tokens{7, 4'000'000'000});
  put<std::uint16_t>(folder / "empty.bin", {});
  CHECK(TokenFile(folder / "empty.bin").size() == 0);
  CHECK_FALSE(TokenFile(folder / "a.bin").has_documents());
}

TEST_CASE("files of llm.c are known by their headers") {
  const TemporaryFolder folder;
  put_llm_c(folder / "gpt2.bin", 20240520, 1, 2, std::string("\x01\x00\x02\x01", 4));
  const TokenFile small(folder / "gpt2.bin");
  CHECK(all_of(small) == Tokens{1, 258});
  CHECK(small.layout() == TokenLayout::kLlmC);
  put_llm_c(folder / "llama3.bin", 20240801, 7, 1, std::string("\x00\xf4\x01\x00", 4));
  CHECK(all_of(TokenFile(folder / "llama3.bin")) == Tokens{128000});
  CHECK_THROWS_AS(TokenFile(folder / "llama3.bin", TokenType::kUint16), ConfigError);
  put_llm_c(folder / "cut.bin", 20240520, 1, 3, "abcd");
  CHECK_THROWS_WITH(TokenFile(folder / "cut.bin"), Contains("llm.c's header of 3 tokens, and 4 bytes"));
  put_llm_c(folder / "negative.bin", 20240520, 1, -1, "abcd");
  CHECK_THROWS_AS(TokenFile(folder / "negative.bin"), IoError);
}

TEST_CASE("what is no token file is an error, without waiting") {
  const TemporaryFolder folder;
  put<std::uint16_t>(folder / "odd.bin", {1}, 1);
  CHECK_THROWS_WITH(TokenFile(folder / "odd.bin"), Contains("has 3 bytes, which is no whole number of tokens of 2 bytes"));
  CHECK_THROWS_WITH(TokenFile(folder / "odd.bim"), Contains("did you mean") && Contains("odd.bin"));
  put<std::uint16_t>(folder / "a.npy", {0x4e93, 0x4d55, 0x5950, 1, 118, 7});
  CHECK_THROWS_WITH(TokenFile(folder / "a.npy"),
                    Contains("is a NumPy array") && Contains(".astype('uint16').tofile('") && Contains("/a.bin')"));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(TokenFile(folder / "pipe"), IoError);
  CHECK_THROWS_AS(TokenFile(folder.path()), IoError);
}

TEST_CASE("reading beyond the end is an error") {
  const TemporaryFolder folder;
  put<std::uint16_t>(folder / "a.bin", {1, 2, 3});
  const TokenFile file(folder / "a.bin");
  Tokens two(2);
  file.read(1, two);
  CHECK(two == Tokens{2, 3});
  CHECK(file[2] == 3);
  CHECK_THROWS_AS(file.read(2, two), MisuseError);
  CHECK_THROWS_AS(file.read(-1, two), MisuseError);
  CHECK_THROWS_AS(file[std::numeric_limits<std::int64_t>::max()], MisuseError);
}

TEST_CASE("a written file has its type, vocabulary and documents") {
  const TemporaryFolder folder;
  const fs::path path = folder / "train.bin";
  TokenWriter writer(path, {.vocab_size = 70'000});
  writer.add_document(Tokens{1, 2, 69'999});
  writer.add_document({});
  writer.add_document(Tokens{5});
  CHECK_FALSE(fs::exists(path));
  writer.finish();
  const TokenFile file(path);
  CHECK(file.type() == TokenType::kUint32);
  CHECK(file.vocab_size() == 70'000);
  CHECK(all_of(file) == Tokens{1, 2, 69'999, 5});
  CHECK(std::ranges::equal(file.document_ends(), std::vector<std::uint64_t>{3, 3, 4}));
  CHECK(fs::file_size(path) == 16);
}

TEST_CASE("a large file is hashed at both ends, however it is written") {
  const TemporaryFolder folder;
  const fs::path path = folder / "train.bin";
  Tokens document(30'000);
  std::iota(document.begin(), document.end(), 0);
  TokenWriter writer(path, {.layout = TokenLayout::kLlmC});
  for (int index = 0; index < 50; ++index)
    writer.add_document(std::span(document).subspan(0, static_cast<std::size_t>(index) * 600));
  writer.finish();
  const TokenFile file(path);
  CHECK(file.layout() == TokenLayout::kLlmC);
  CHECK(file.size() == 600 * 49 * 50 / 2);
  CHECK(file[file.size() - 1] == 600 * 49 - 1);
  change_byte(path, fs::file_size(path) - 1);
  CHECK_THROWS_WITH(TokenFile(path), Contains("is of another file than"));
}

TEST_CASE("a token that does not fit into the type is an error that names it") {
  const TemporaryFolder folder;
  TokenWriter writer(folder / "a.bin", {.vocab_size = 70'000, .type = TokenType::kUint16});
  writer.add_document(Tokens{65'535});
  CHECK_THROWS_WITH(writer.add_document(Tokens{1, 65'536}),
                    Contains("the token 65536 of document 1 does not fit into uint16: write uint32"));
}

TEST_CASE("a writer that does not finish leaves nothing, and the old file") {
  const TemporaryFolder folder;
  put<std::uint16_t>(folder / "a.bin", {9});
  { TokenWriter(folder / "a.bin").add_document(Tokens{1, 2}); }
  CHECK(all_of(TokenFile(folder / "a.bin")) == Tokens{9});
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a damaged index, or one of another file, is an error") {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.bin";
  TokenWriter writer(path, {.vocab_size = 10});
  writer.add_document(Tokens{1, 2, 3});
  writer.add_document(Tokens{4, 5});
  writer.finish();
  const std::string index = read_text(index_of(path));
  const auto with_index = [&](const std::string& bytes) {
    std::ofstream(index_of(path), std::ios::binary) << bytes;
    return TokenFile(path);
  };
  CHECK(with_index(index).size() == 5);
  CHECK_THROWS_WITH(with_index(index.substr(0, 20)), Contains("is no index of a token file"));
  CHECK_THROWS_WITH(with_index(index.substr(0, index.size() - 8)), Contains("is damaged"));
  for (std::size_t place = 0; place < index.size(); ++place) {
    CAPTURE(place);
    std::string changed = index;
    changed[place] = static_cast<char>(changed[place] ^ 0x80);
    const bool is_vocabulary = place >= 16 && place < 24;
    if (is_vocabulary) {
      CHECK_NOTHROW(with_index(changed));
    } else {
      CHECK_THROWS_AS(with_index(changed), IoError);
    }
  }
  std::ofstream(index_of(path), std::ios::binary) << index;
  put<std::uint16_t>(path, {1, 2, 3, 4, 6});
  CHECK_THROWS_WITH(TokenFile(path), Contains("is of another file than") && Contains("encode the texts again"));
}

TEST_CASE("a token that is not in the vocabulary is found when it is read") {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.bin";
  TokenWriter writer(path, {.vocab_size = 10});
  writer.add_document(Tokens{1, 2, 10, 3});
  writer.finish();
  Tokens two(2);
  const TokenFile file(path);
  file.read(0, two);
  CHECK_THROWS_WITH(file.read(1, two), Contains("has the token 10 at 2, and its vocabulary has 10"));
}

}  // namespace levin::test
