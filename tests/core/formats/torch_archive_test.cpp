// Pickles of torch.save(), and the archives that hold them.
#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/config/value_json.h"
#include "levin/core/formats/pickle.h"
#include "levin/core/formats/torch_archive.h"
#include "support/error_of.h"
#include "support/file_text.h"

using namespace levin;
using namespace levin::test;

namespace {

using namespace std::string_literals;
using Catch::Matchers::Contains;

Value plain_of(const std::string& bytes) {
  const Pickle pickle(bytes);
  return PlainValues(pickle.bytes()).of(pickle.root());
}

Value read(const std::string& program) { return plain_of("\x80\x02" + program + "."); }

std::string error_of(const std::string& program) {
  return levin::test::error_of<IoError>([&] { read(program); });
}

TEST_CASE("plain containers, numbers and texts are read as they are") {
  CHECK(to_json(read("}(X\1\0\0\0aK\7X\1\0\0\0b]q\1(M\xff\x01J\xff\xff\xff\xff\x88Neu"s)) ==
        R"({"a":7,"b":[511,-1,true,null]})");
  CHECK(read("\x8a\x02\x00\x80"s) == Value(-32768));
  CHECK(read("\x8a\x00"s) == Value(0));
  CHECK(read("G\x3f\xf8\x00\x00\x00\x00\x00\x00"s) == Value(1.5));
  CHECK(to_json(read("(K\1K\2\x86q\0h\0t"s)) == "[[1,2],[1,2]]");
  // A number beyond 64 bits, a set, an OrderedDict, torch.Size.
  CHECK(read("\x8a\x09\1\1\1\1\1\1\1\1\1"s) == Value("function int of module builtins"));
  CHECK(to_json(read("c__builtin__\nset\n](K\1e\x85R"s)) == "[1]");
  CHECK(to_json(read("ccollections\nOrderedDict\n)RX\1\0\0\0aK\1s"s)) == R"({"a":1})");
  CHECK(to_json(read("ctorch\nSize\nK\2K\3\x86\x85R"s)) == "[2,3]");
  CHECK(read("ctorch\nfloat32\n"s) == Value("torch.float32"));
}

TEST_CASE("what a pickle would call is data, named by its class") {
  CHECK(read("cos\nsystem\nX\4\0\0\0true\x85R"s) == Value("function system of module os"));
  CHECK(read("cmy.models\nNet\n)\x81}X\1\0\0\0aK\1sb"s) == Value("class Net of module my.models"));
  CHECK(to_json(read("cmy\nDict\n)\x81X\1\0\0\0aK\1s"s)) == R"({"a":1})");
}

TEST_CASE("a pickle that is none, or cut short, is an error with its byte") {
  using Row = std::pair<std::string, const char*>;
  for (const auto& [program, error] :
       {Row{"]K", "byte"}, Row{"t", "it ends a group that it has not begun"}, Row{"0", "it takes a value where there is none"},
        Row{"K\1K\2"s, "not end with exactly one value"}, Row{"h\5"s, "nothing under number 5 of the memo"},
        Row{"K\1K\2a"s, "other than a list"}, Row{"K\1K\2K\3s"s, "other than a dict"},
        Row{"K\1)R"s, "other than a class or function"}, Row{"\xff", "torch does not write operation 0xff"},
        Row{"X\xff\xff\xff\xff", "truncated"}}) {
    CHECK_THAT(error_of(program), Contains(error));
  }
  CHECK_THROWS_WITH(Pickle("\x80\x07N."), Contains("protocol 7"));
  CHECK_THROWS_WITH(Pickle(""), Contains("truncated"));
}

TEST_CASE("a few bytes do not take much memory") {
  // A list that is twice in a list, which is twice in a list, …
  std::string doubled = "]q\0"s;
  for (char i = 0; i < 60; ++i) doubled += "](h"s + i + "h" + i + "eq" + static_cast<char>(i + 1);
  std::string pickle = doubled;
  CHECK_THAT(error_of("(" + pickle + "l"), Contains("more values than its bytes can hold"));
  // A long text that is the key, or the value, of many.
  std::string texts = "}(X\0\0\1\0"s + std::string(65536, 'a') + "q\0"s;
  for (int i = 0; i < 2000; ++i) texts += "Nh\0"s;
  CHECK_THAT(error_of(texts + "Nu"), Contains("more values than its bytes can hold"));
  // One allowance for all that is made of a file.
  const Pickle thousand("\x80\x02]("s + std::string(1000, 'N') + "e.");
  PlainValues plain(thousand.bytes());
  std::size_t times = 0;
  CHECK_THROWS_AS(
      [&] {
        for (; times < 1000; ++times) plain.of(thousand.root());
      }(),
      IoError);
  CHECK(times > 5);
  CHECK(times < 50);
  // A list that holds itself.
  CHECK_THAT(error_of("]q\0h\0a"s), Contains("nested deeper"));
  // The same long tuple copied again and again.
  std::string copies = "(";
  for (int i = 0; i < 5000; ++i) copies += "K\1"s;
  copies += "tq\0"s;
  for (int i = 0; i < 5000; ++i) copies += "ctorch\nSize\nh\0\x85R0"s;
  CHECK_THAT(error_of(copies), Contains("more than 6000000 values"));
}

TEST_CASE("a tensor says how far it reaches into its storage") {
  const auto end_of = [](std::int64_t offset, std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
    return PickleTensor{{"float32", "0", 10}, offset, std::move(sizes), std::move(strides)}.end();
  };
  CHECK(end_of(0, {}, {}) == 1);
  CHECK(end_of(2, {3, 4}, {4, 1}) == 14);
  CHECK(end_of(2, {3, 4}, {1, 3}) == 14);
  CHECK(end_of(5, {0, 4}, {4, 1}) == 5);
  CHECK(end_of(0, {1, 1000}, {1, 0}) == 1);
  CHECK(!end_of(0, {INT64_MAX, 4}, {4, 1}));
  CHECK(!end_of(INT64_MAX, {2}, {1}));
  CHECK(!end_of(INT64_MAX, {}, {}));
}

const std::filesystem::path kData = LEVIN_SOURCE_DIR "/tests/core/formats/data";

std::string archive_error(const std::string& bytes) {
  return levin::test::error_of<IoError>([&] { TorchArchive archive(bytes); });
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
  const std::string bytes = read_text(kData / "training_loop.pt");
  const TorchArchive archive(bytes);
  CHECK(archive.root().find("epoch")->as<std::int64_t>() != nullptr);
  const PickleValue* const weight = archive.root().find("model_state_dict")->find("weight");
  REQUIRE(weight != nullptr);
  const auto* tensor = weight->as<PickleTensor>();
  REQUIRE(tensor != nullptr);
  CHECK(tensor->storage.dtype == "float32");
  CHECK(tensor->sizes == std::vector<std::int64_t>{2});
  CHECK(archive.checked_bytes(archive.storage(*tensor, 4)) == "\0\0\x80\x3f\0\0\x80\x3f"s);
  CHECK_THROWS_WITH(archive.storage(*tensor, 8), Contains("reaches beyond its storage '0', 8 bytes from byte"));
  for (const ZipEntry& entry : archive.zip().entries()) CHECK(archive.zip().is_whole(entry));
}

TEST_CASE("a pickle or a storage with a changed byte is found by its checksum") {
  const std::string whole = read_text(kData / "training_loop.pt");
  std::string changed = whole;
  changed[whole.find("epoch")] = 'E';
  CHECK_THAT(archive_error(changed),
             Contains("checksum shows that 'training_loop/data.pkl'") && Contains("from byte 64 on, is damaged"));

  changed = whole;
  changed[whole.find("\0\0\x80\x3f\0\0\x80\x3f"s)] = 1;
  const TorchArchive archive(changed);
  const auto* tensor = archive.root().find("model_state_dict")->find("weight")->as<PickleTensor>();
  REQUIRE(tensor != nullptr);
  CHECK_THROWS_WITH(archive.checked_bytes(archive.storage(*tensor, 4)), Contains("'training_loop/data/0', 8 bytes from byte"));
}

TEST_CASE("archives that torch.save() has not written are errors") {
  CHECK(archive_error(zip({{"a/data.pkl", "\x80\x02N."}})).empty());
  CHECK_THAT(archive_error(zip({{"a/other", "x"}})), Contains("no data.pkl"));
  CHECK_THAT(archive_error(zip({})), Contains("no data.pkl"));
  CHECK_THAT(archive_error(zip({{"a/data.pkl", "\x80\x02\xff."}, {"a/constants.pkl", ""}})), Contains("TorchScript"));
  CHECK_THAT(archive_error(zip({{"a/data.pkl", "\x80\x02N."}, {"a/byteorder", "big"}})), Contains("big-endian"));
  CHECK_THAT(archive_error(zip({{"a/data.pkl", "\x80\x02N."}}, 8)), Contains("compressed"));
  CHECK_THAT(archive_error(zip({{"a/data.pkl", "\x80\x02K"}})),
             Contains("its data.pkl, which begins at byte") && Contains("truncated"));
  CHECK_THAT(archive_error("PK\3\4"), Contains("truncated"));
  // Two entries for the same bytes.
  std::string shared =
      zip({{"a/data.pkl", "\x80\x02N."}, {"a/data/0", std::string(1000, 'x')}, {"a/data/1", std::string(1000, 'x')}});
  const std::size_t second = shared.rfind("PK\1\2");
  const std::size_t first = shared.rfind("PK\1\2", second - 1);
  const std::size_t end = shared.rfind("PK\5\6");
  const std::string entry = shared.substr(first, second - first);
  shared.replace(second, end - second, entry);
  CHECK(archive_error(shared).empty());  // which takes no more than the file has
  std::string repeated = shared.substr(0, end);
  for (int i = 0; i < 3; ++i) repeated += entry;
  repeated += shared.substr(end);
  repeated[repeated.size() - 14] = repeated[repeated.size() - 12] = 6;
  CHECK_THAT(archive_error(repeated), Contains("overlaps another one"));
}

TEST_CASE("numbers in an archive that lead out of it are errors") {
  const std::string whole = zip({{"a/data.pkl", "\x80\x02N."}});
  const std::size_t entry = whole.find("PK\1\2");
  const auto changed = [&](std::size_t place) {
    std::string bytes = whole;
    bytes.replace(place, 4, "\xf0\xff\xff\x7f");
    return archive_error(bytes);
  };
  CHECK_THAT(changed(entry + 42), Contains("lies beyond its end"));        // where the file begins
  CHECK_THAT(changed(entry + 20), Contains("lies beyond its end"));        // how long it is in the archive
  CHECK_THAT(changed(entry + 24), Contains("compressed"));                 // how long it is
  CHECK_THAT(changed(whole.size() - 6), Contains("lies beyond its end"));  // where the table of contents is
  CHECK_THAT(changed(whole.size() - 12), Contains("table of contents"));   // how many there are
}

}  // namespace
