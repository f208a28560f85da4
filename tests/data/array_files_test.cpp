#include "levin/data/array_files.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/fixtures.h"
#include "levin/core/base/error.h"
#include "levin/data/read_file.h"

using Catch::Matchers::Contains;

namespace {

at::Tensor npy(const std::string& name) { return levin::read_npy(kFixtures / (name + ".npy")); }

}  // namespace

TEST_CASE("every numeric type of NumPy is read") {
  const at::Tensor expected = (torch::arange(6).view({2, 3}) * 40) % 256;
  const std::vector<std::pair<std::string, at::ScalarType>> types{{"int16", at::kShort},
                                                                  {"int32", at::kInt},
                                                                  {"int64", at::kLong},
                                                                  {"uint8", at::kByte},
                                                                  {"uint16", at::kInt},
                                                                  {"uint32", at::kLong},
                                                                  {"uint64", at::kLong},
                                                                  {"float16", at::kHalf},
                                                                  {"float32", at::kFloat},
                                                                  {"float64", at::kDouble},
                                                                  {"int8", at::kChar},
                                                                  {"complex64", at::kComplexFloat},
                                                                  {"complex128", at::kComplexDouble}};
  for (const auto& [name, type] : types) {
    CAPTURE(name);
    const at::Tensor read = npy(name);
    REQUIRE(read.scalar_type() == type);
    REQUIRE(read.equal(expected.to(type)));
  }
  REQUIRE(npy("bool").equal(expected.remainder(80).eq(0)));
  REQUIRE(npy("uint16_large").equal(torch::tensor({0, 65535}, torch::kInt)));
  REQUIRE(npy("uint32_large").equal(torch::tensor({std::int64_t{0}, std::int64_t{4294967295}}, torch::kLong)));
}

TEST_CASE("byte order, Fortran order, shapes and versions of .npy") {
  REQUIRE(npy("big_endian").equal(torch::tensor({{1.5, -2.0}, {0.25, 1e10}}, torch::kDouble)));
  REQUIRE(at::view_as_real(npy("big_endian_complex")).equal(torch::tensor({{1.0f, 2.0f}, {0.0f, -3.5f}})));
  REQUIRE(npy("fortran").equal(torch::arange(24, torch::kInt).view({2, 3, 4})));
  REQUIRE(npy("scalar").equal(torch::tensor(2.5f)));
  REQUIRE(npy("empty").sizes() == at::IntArrayRef{0, 10});
  REQUIRE(npy("version2").equal(torch::tensor({3, 1, 2}, torch::kLong)));
  REQUIRE(npy("version3").equal(npy("version2")));
}

TEST_CASE("what is no array of numbers is refused, with the reason") {
  for (const auto& [name, reason] :
       std::initializer_list<std::pair<const char*, const char*>>{{"objects", "Python objects"},
                                                                  {"text", "'<U2'"},
                                                                  {"records", "records of several fields"},
                                                                  {"uint64_too_large", "above 9223372036854775807"},
                                                                  {"missing", "No such file"}}) {
    CHECK_THROWS_WITH(npy(name), Contains(std::string(name) + ".npy") && Contains(reason));
  }
  for (const auto& [header, reason] : std::initializer_list<std::pair<const char*, const char*>>{
           {"'fortran_order': False, 'shape': (4000000000, 4000000000, 4), ", "absurd"},
           {"'fortran_order': False, 'shape': (400000000000,), ", "promises 3200000000000 bytes of data, it has 0"},
           {"'fortran_order': False, ", "lacks descr, fortran_order or shape"},
           {"'fortran_order': False, 'shape': (), 'x': 1", "unknown key 'x'"},
           {"'fortran_order': 1, 'shape': ()", "cannot be read"},
           {"'fortran_order': False, 'shape': (-1,)", "the shape in its header cannot be read"},
           {"'fortran_order': False, 'shape': ()) ", "cannot be read"}}) {
    const std::string text = "{'descr': '<f8', " + std::string(header) + "}";
    const std::string file = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(text.size()) + '\0' + text;
    CHECK_THROWS_WITH(levin::parse_npy(file, "a.npy"), Contains("a.npy") && Contains(reason));
  }
  const std::string long_header = std::string("\x93NUMPY\x02\x00\x00\x00\x02\x00", 12) + std::string(1 << 17, ' ');
  CHECK_THROWS_WITH(levin::parse_npy(long_header, "a.npy"), Contains("131072 bytes is too long"));
}

TEST_CASE("IDX files are read, compressed ones too") {
  REQUIRE(levin::read_idx(kFixtures / "images-idx3-ubyte").equal(torch::arange(12, torch::kByte).view({3, 2, 2})));
  REQUIRE(levin::read_idx(kFixtures / "labels-idx1-ubyte.gz").equal(torch::tensor({2, 0, 1}, torch::kByte)));
  REQUIRE(levin::read_idx(kFixtures / "floats.idx").equal(torch::tensor({{1.5f, -2.0f, 1e10f}})));
}

TEST_CASE("a .npy or IDX file that ends too early is an error") {
  for (const char* name : {"float64.npy", "fortran.npy", "version2.npy", "bool.npy", "big_endian_complex.npy",
                           "images-idx3-ubyte", "floats.idx"}) {
    const std::string whole = levin::read_input_file(kFixtures / name);
    const auto parse = std::string(name).ends_with(".npy") ? levin::parse_npy : levin::parse_idx;
    for (std::size_t length = 0; length < whole.size(); ++length)
      REQUIRE_THROWS_AS(parse(whole.substr(0, length), "damaged"), levin::IoError);
  }
  REQUIRE_THROWS_WITH(levin::parse_idx(std::string("\0\0\x08\x01\xFF\xFF\xFF\xFF", 8), "x"),
                      Contains("promises 4294967295 bytes"));
}
TEST_CASE("a mapped array is the one that is read, in either order, without a copy") {
  for (const auto& entry : std::filesystem::directory_iterator(kFixtures)) {
    if (entry.path().extension() != ".npy") continue;
    at::Tensor read;
    try {
      read = levin::read_npy(entry.path());
    } catch (const levin::IoError&) {
      CHECK_THROWS_AS(levin::map_npy(entry.path()), levin::IoError);
      continue;
    }
    INFO(entry.path());
    const at::Tensor mapped = levin::map_npy(entry.path());
    CHECK(mapped.scalar_type() == read.scalar_type());
    CHECK(mapped.equal(read));
  }
  CHECK_THROWS_WITH(levin::map_npy(kFixtures / "nothing.npy"), Catch::Matchers::Contains("nothing.npy"));
}
