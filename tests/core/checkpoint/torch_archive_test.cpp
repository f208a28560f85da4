#include "levin/core/formats/torch_archive.h"

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "support/file_text.h"

namespace {

using namespace std::string_literals;
using Catch::Matchers::Contains;
using levin::TorchArchive;

const std::filesystem::path kData = LEVIN_SOURCE_DIR "/tests/core/checkpoint/data";

std::string error_of(const std::string& bytes) {
  try {
    const TorchArchive archive(bytes);
  } catch (const levin::IoError& error) {
    return error.what();
  }
  return "";
}

/// An archive without zip64, of files that are stored.
std::string zip(const std::vector<std::pair<std::string, std::string>>& files, char method = 0) {
  const auto number = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
    return text;
  };
  std::string data;
  std::string contents;
  for (const auto& [name, text] : files) {
    const std::string sizes =
        number(0, 4) + number(text.size(), 4) + number(text.size(), 4) + number(name.size(), 2) + number(0, 2);
    const std::string kind = "\x14\0\0\0"s + method + "\0\0\0\0\0"s;
    contents += "PK\1\2\x14\0"s + kind + sizes + number(0, 10) + number(data.size(), 4) + name;
    data += "PK\3\4"s + kind + sizes + name + text;
  }
  return data + contents + "PK\5\6"s + number(0, 4) + number(files.size(), 2) + number(files.size(), 2) +
         number(contents.size(), 4) + number(data.size(), 4) + number(0, 2);
}

TEST_CASE("the archive of torch.save() shows its files and its pickle") {
  const std::string bytes = levin::test::read_text(kData / "training_loop.pt");
  const TorchArchive archive(bytes);
  CHECK(archive.root().find("epoch")->as<std::int64_t>() != nullptr);
  const levin::PickleValue* const weight = archive.root().find("model_state_dict")->find("weight");
  REQUIRE(weight != nullptr);
  const auto* tensor = weight->as<levin::PickleTensor>();
  REQUIRE(tensor != nullptr);
  CHECK(tensor->storage.dtype == "float32");
  CHECK(tensor->sizes == std::vector<std::int64_t>{2});
  CHECK(archive.checked_bytes(archive.storage(*tensor, 4)) == "\0\0\x80\x3f\0\0\x80\x3f"s);
  CHECK_THROWS_WITH(archive.storage(*tensor, 8), Contains("reaches beyond its storage '0', 8 bytes from byte"));
  for (const levin::ZipEntry& entry : archive.zip().entries()) CHECK(archive.zip().is_whole(entry));
}

TEST_CASE("a pickle or a storage with a changed byte is found by its checksum") {
  const std::string whole = levin::test::read_text(kData / "training_loop.pt");
  std::string changed = whole;
  changed[whole.find("epoch")] = 'E';
  CHECK_THAT(error_of(changed),
             Contains("checksum shows that 'training_loop/data.pkl'") && Contains("from byte 64 on, is damaged"));

  changed = whole;
  changed[whole.find("\0\0\x80\x3f\0\0\x80\x3f"s)] = 1;
  const TorchArchive archive(changed);
  const auto* tensor = archive.root().find("model_state_dict")->find("weight")->as<levin::PickleTensor>();
  REQUIRE(tensor != nullptr);
  CHECK_THROWS_WITH(archive.checked_bytes(archive.storage(*tensor, 4)), Contains("'training_loop/data/0', 8 bytes from byte"));
}

TEST_CASE("archives that torch.save() has not written are errors") {
  CHECK(error_of(zip({{"a/data.pkl", "\x80\x02N."}})).empty());
  CHECK_THAT(error_of(zip({{"a/other", "x"}})), Contains("no data.pkl"));
  CHECK_THAT(error_of(zip({})), Contains("no data.pkl"));
  CHECK_THAT(error_of(zip({{"a/data.pkl", "\x80\x02N."}, {"a/constants.pkl", ""}})), Contains("TorchScript"));
  CHECK_THAT(error_of(zip({{"a/data.pkl", "\x80\x02N."}, {"a/byteorder", "big"}})), Contains("big-endian"));
  CHECK_THAT(error_of(zip({{"a/data.pkl", "\x80\x02N."}}, 8)), Contains("compressed"));
  CHECK_THAT(error_of(zip({{"a/data.pkl", "\x80\x02K"}})),
             Contains("its data.pkl, which begins at byte") && Contains("cut short"));
  CHECK_THAT(error_of("PK\3\4"), Contains("cut short"));
  // Two entries for the same bytes.
  std::string shared =
      zip({{"a/data.pkl", "\x80\x02N."}, {"a/data/0", std::string(1000, 'x')}, {"a/data/1", std::string(1000, 'x')}});
  const std::size_t second = shared.rfind("PK\1\2");
  const std::size_t first = shared.rfind("PK\1\2", second - 1);
  const std::size_t end = shared.rfind("PK\5\6");
  const std::string entry = shared.substr(first, second - first);
  shared.replace(second, end - second, entry);
  CHECK(error_of(shared).empty());  // which takes no more than the file has
  std::string repeated = shared.substr(0, end);
  for (int i = 0; i < 3; ++i) repeated += entry;
  repeated += shared.substr(end);
  repeated[repeated.size() - 14] = repeated[repeated.size() - 12] = 6;
  CHECK_THAT(error_of(repeated), Contains("overlaps another one"));
}

TEST_CASE("numbers in an archive that lead out of it are errors") {
  const std::string whole = zip({{"a/data.pkl", "\x80\x02N."}});
  const std::size_t entry = whole.find("PK\1\2");
  const auto changed = [&](std::size_t place) {
    std::string bytes = whole;
    bytes.replace(place, 4, "\xf0\xff\xff\x7f");
    return error_of(bytes);
  };
  CHECK_THAT(changed(entry + 42), Contains("lies beyond its end"));        // where the file begins
  CHECK_THAT(changed(entry + 20), Contains("lies beyond its end"));        // how long it is in the archive
  CHECK_THAT(changed(entry + 24), Contains("compressed"));                 // how long it is
  CHECK_THAT(changed(whole.size() - 6), Contains("lies beyond its end"));  // where the table of contents is
  CHECK_THAT(changed(whole.size() - 12), Contains("table of contents"));   // how many there are
}

}  // namespace
