#include "levin/core/formats/pickle.h"

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/options/value_json.h"

namespace {

using namespace std::string_literals;
using Catch::Matchers::Contains;
using levin::Pickle;
using levin::Value;

Value plain_of(const std::string& bytes) {
  const Pickle pickle(bytes);
  return levin::PlainValues(pickle.bytes()).of(pickle.root());
}

Value read(const std::string& program) { return plain_of("\x80\x02" + program + "."); }

std::string error_of(const std::string& program) {
  try {
    read(program);
  } catch (const levin::IoError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("plain containers, numbers and texts are read as they are") {
  CHECK(levin::to_json(read("}(X\1\0\0\0aK\7X\1\0\0\0b]q\1(M\xff\x01J\xff\xff\xff\xff\x88Neu"s)) ==
        R"({"a":7,"b":[511,-1,true,null]})");
  CHECK(read("\x8a\x02\x00\x80"s) == Value(-32768));
  CHECK(read("\x8a\x00"s) == Value(0));
  CHECK(read("G\x3f\xf8\x00\x00\x00\x00\x00\x00"s) == Value(1.5));
  CHECK(levin::to_json(read("(K\1K\2\x86q\0h\0t"s)) == "[[1,2],[1,2]]");
  // A number beyond 64 bits, a set, an OrderedDict, torch.Size.
  CHECK(read("\x8a\x09\1\1\1\1\1\1\1\1\1"s) == Value("function int of module builtins"));
  CHECK(levin::to_json(read("c__builtin__\nset\n](K\1e\x85R"s)) == "[1]");
  CHECK(levin::to_json(read("ccollections\nOrderedDict\n)RX\1\0\0\0aK\1s"s)) == R"({"a":1})");
  CHECK(levin::to_json(read("ctorch\nSize\nK\2K\3\x86\x85R"s)) == "[2,3]");
  CHECK(read("ctorch\nfloat32\n"s) == Value("torch.float32"));
}

TEST_CASE("what a pickle would call is data, named by its class") {
  CHECK(read("cos\nsystem\nX\4\0\0\0true\x85R"s) == Value("function system of module os"));
  CHECK(read("cmy.models\nNet\n)\x81}X\1\0\0\0aK\1sb"s) == Value("class Net of module my.models"));
  CHECK(levin::to_json(read("cmy\nDict\n)\x81X\1\0\0\0aK\1s"s)) == R"({"a":1})");
}

TEST_CASE("a pickle that is none, or cut short, is an error with its byte") {
  CHECK_THAT(error_of("]K"), Contains("byte"));
  CHECK_THAT(error_of("t"), Contains("it ends a group that it has not begun"));
  CHECK_THAT(error_of("0"), Contains("it takes a value where there is none"));
  CHECK_THAT(error_of("K\1K\2"s), Contains("more or less than one value"));
  CHECK_THAT(error_of("h\5"s), Contains("nothing under number 5 of the memo"));
  CHECK_THAT(error_of("K\1K\2a"s), Contains("no list"));
  CHECK_THAT(error_of("K\1K\2K\3s"s), Contains("no dict"));
  CHECK_THAT(error_of("K\1)R"s), Contains("no class or function"));
  CHECK_THAT(error_of("\xff"), Contains("operation 0xff is none that torch writes"));
  CHECK_THAT(error_of("X\xff\xff\xff\xff"), Contains("cut short"));
  CHECK_THROWS_WITH(Pickle("\x80\x07N."), Contains("protocol 7"));
  CHECK_THROWS_WITH(Pickle(""), Contains("cut short"));
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
  levin::PlainValues plain(thousand.bytes());
  std::size_t times = 0;
  CHECK_THROWS_AS(
      [&] {
        for (; times < 1000; ++times) plain.of(thousand.root());
      }(),
      levin::IoError);
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
    return levin::PickleTensor{{"float32", "0", 10}, offset, std::move(sizes), std::move(strides)}.end();
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

TEST_CASE("a pickle that is written reads back the same") {
  const Value plain = levin::parse_json(R"({"a":[1,-70000,4294967296,1.5,null,true,false,"text",[],{}],"b":{"c":[[]]}})");
  levin::PickleTree tree;
  CHECK(plain_of(levin::write_pickle(*tree.add_plain(plain))) == plain);

  for (const std::string dtype : {"float32", "uint16"}) {
    levin::PickleValue* dict = nullptr;
    levin::PickleObject* const items = tree.add_ordered_dict(dict);
    items->items.emplace_back(tree.add("weight"s), tree.add(levin::PickleTensor{{dtype, "7", 20}, 2, {3, 4}, {1, 3}}));
    const Pickle read(levin::write_pickle(*dict));
    REQUIRE(read.root().find("weight") != nullptr);
    const auto* tensor = read.root().find("weight")->as<levin::PickleTensor>();
    REQUIRE(tensor != nullptr);
    CHECK(tensor->storage.dtype == dtype);
    CHECK(tensor->storage.key == "7");
    CHECK(tensor->offset == 2);
    CHECK(tensor->sizes == std::vector<std::int64_t>{3, 4});
    CHECK(tensor->strides == std::vector<std::int64_t>{1, 3});
  }
}

}  // namespace
