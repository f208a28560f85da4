#include "levin/core/checkpoint/safetensors_file.h"

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"

using namespace levin;

namespace {

using Catch::Matchers::Contains;

// A file with this header text and so many bytes of data.
std::string file_with(const std::string& json, std::size_t data_size) {
  std::string bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return bytes + json + std::string(data_size, 'd');
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

}  // namespace

TEST_CASE("a hostile or damaged file is refused with what is wrong") {
  const auto refused = [](const std::string& file, const std::string& why) {
    INFO(file.substr(0, 200));
    CHECK_THROWS_WITH(parse_safetensors(file), Contains(why));
  };
  const auto one = [](const std::string& entry, std::size_t data_size) {
    return file_with(R"({"a":)" + entry + "}", data_size);
  };
  CHECK_NOTHROW(parse_safetensors(one(tensor("F32", "[2]", "[0,8]"), 8)));
  refused("", "only 0 bytes");
  refused("1234567", "only 7 bytes");
  refused(std::string(8, '\xff'), "its first 8 bytes are not the length of a header");
  refused(std::string("\x10\0\0\0\0\0\0\0{}", 10), "within its header");
  refused(file_with("{\"a\":", 0), "not JSON");
  refused(file_with("[]", 0), "not a map");
  refused(file_with(std::string(100000, '['), 0), "deeper");
  std::string sizes = "0";
  for (int i = 0; i < 100'000; ++i) sizes += ",0";
  refused(file_with("{\"a\":{\"dtype\":\"U8\",\"shape\":[" + sizes + "],\"data_offsets\":[0,0]}}", 0), "more than 64 elements");
  refused(file_with(R"({"a":)" + tensor("F32", "[1]", "[0,4]") + R"(,"a":)" + tensor("F32", "[1]", "[4,8]") + "}", 8), "twice");
  refused(one("[]", 0), "not described");
  refused(one(R"({"dtype":"F32","shape":[1]})", 4), "not described");
  refused(one(R"({"dtype":"F32","shape":[1],"offsets":[0,4]})", 4), "no data_offsets");
  refused(one(R"({"dtype":1,"shape":[1],"data_offsets":[0,4]})", 4), "not described");
  refused(one(tensor("F31", "[1]", "[0,4]"), 4), "F31");
  refused(one(tensor("F32", "[-1]", "[0,4]"), 4), "at least 0");
  refused(one(tensor("F32", "[1.0]", "[0,4]"), 4), "at least 0");
  refused(one(tensor("F32", "[4611686018427387904,4]", "[0,0]"), 0), "larger than any file");
  refused(one(tensor("F64", "[2305843009213693952]", "[0,0]"), 0), "larger than any file");
  refused(one(tensor("F32", "[1]", "[4,0]"), 4), "do not fit");
  refused(one(tensor("F32", "[1]", "[0,5]"), 5), "do not fit");
  refused(one(tensor("F32", "[1]", "[0,4,8]"), 4), "not described");
  refused(one(tensor("F32", "[1]", "[4,8]"), 8), "hole");
  refused(one(tensor("F32", "[2]", "[0,8]"), 4), "ends within tensor 'a'");
  refused(one(tensor("F32", "[1]", "[0,4]"), 9), "5 bytes after");
  refused(file_with(R"({"a":)" + tensor("F32", "[2]", "[0,8]") + R"(,"b":)" + tensor("F32", "[2]", "[4,12]") + "}", 12),
          "overlaps");
  refused(file_with(R"({"__metadata__":{"a":1}})", 0), "not a text");
  refused(file_with(R"({"__metadata__":[]})", 0), "not a map");
}
