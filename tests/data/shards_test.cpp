// Shards: what tar writes is read, what is written is read by tar, and no damaged file is taken for a whole one.
#include "levin/data/shards.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/data/tar_reader.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;
using levin::ShardSample;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

void run(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

std::vector<ShardSample> samples_in(const fs::path& tar, std::int64_t skipped = 0) {
  auto reader = levin::samples_of(tar).read();
  REQUIRE(reader.skip(skipped) == skipped);
  std::vector<ShardSample> samples;
  while (auto sample = reader.next()) samples.push_back(std::move(*sample));
  return samples;
}

/// Without the program there is nothing to compare with.
bool has_zstd() {
  static const bool has = std::system("zstd --version >/dev/null 2>&1") == 0;
  if (!has) WARN("Not tested: zstd (install zstd)");
  return has;
}

/// Files of three samples, one of them with a name of 150 letters, and a file that belongs to none.
struct Folder {
  levin::test::TemporaryFolder folder;
  const std::string long_name = "train/" + std::string(90, 'n') + "/" + std::string(60, 'm');
  Folder() {
    write(folder / "in/a/1.jpg", std::string(1000, 'j'));
    write(folder / "in/a/1.cls", "7\n");
    write(folder / "in/a/2.jpg", "");
    write(folder / "in/a/2.seg.png", std::string(512, 'p'));
    write(folder / ("in/" + long_name + ".txt"), "long");
    write(folder / "in/README", "no sample");
  }
  fs::path tar(const std::string& format, const std::string& options = "") const {
    const fs::path file = folder / (format + ".tar");
    run(levin::format("tar --format={} -C {} {} -cf {} a/1.jpg a/1.cls README a/2.jpg a/2.seg.png {}.txt a", format,
                      (folder / "in").string(), options, file.string(), long_name));
    return file;
  }
};

void check(const std::vector<ShardSample>& samples, const std::string& long_name) {
  REQUIRE(samples.size() >= 3);
  CHECK(samples[0].key == "a/1");
  CHECK(samples[0]["jpg"] == std::string(1000, 'j'));
  CHECK(samples[0].number("cls") == 7);
  CHECK(samples[1].key == "a/2");
  CHECK(samples[1]["jpg"].empty());
  CHECK(samples[1]["seg.png"] == std::string(512, 'p'));
  CHECK(samples[2].key == long_name);
  CHECK(samples[2]["txt"] == "long");
}

}  // namespace

TEST_CASE("samples are read from what tar writes in its formats, compressed or not, from any sample on") {
  const Folder data;
  for (const std::string format : {"ustar", "pax", "gnu"}) {
    INFO(format);
    const fs::path plain = data.tar(format);
    std::vector<fs::path> files = {plain, data.folder / (format + ".gz"), data.folder / (format + ".zst")};
    run(levin::format("gzip -c {} >{}", plain.string(), files[1].string()));
    if (!has_zstd())
      files.pop_back();
    else
      run(levin::format("zstd -q {} -o {}", plain.string(), files[2].string()));
    for (const fs::path& file : files) {
      const auto all = samples_in(file);
      check(all, data.long_name);
      for (std::int64_t skipped = 0; skipped <= 3; ++skipped) {
        const auto rest = samples_in(file, skipped);
        REQUIRE(rest.size() == all.size() - static_cast<std::size_t>(skipped));
        if (!rest.empty()) CHECK(rest.front().key == all[static_cast<std::size_t>(skipped)].key);
      }
    }
  }
  auto reader = levin::samples_of(data.tar("pax")).read();
  const auto sample = *reader.next();
  CHECK_THROWS_WITH(sample["png"], Contains("'a/1' has no file 'png'; it has 'jpg', 'cls'"));
  CHECK_THROWS_WITH(sample.number("jpg"), Contains("no whole number"));
}

TEST_CASE("shards that are written are read back, and by tar") {
  const levin::test::TemporaryFolder folder;
  const std::string long_key = std::string(120, 'k') + "/1";
  {
    levin::ShardWriter writer(folder / "shards", "train", {.max_samples = 2});
    writer.add({"0", {{"jpg", std::string(700, 'x')}, {"cls", "1"}}});
    CHECK_FALSE(fs::exists(folder / "shards/train-000000.tar"));
    writer.add({"1", {{"jpg", ""}, {"cls", "2"}}});
    writer.add({long_key, {{"txt", "three"}}});
    CHECK_THROWS_AS(writer.add({"a.b", {{"txt", ""}}}), levin::MisuseError);
    CHECK_THROWS_AS(writer.add({"a/", {{"txt", ""}}}), levin::MisuseError);
    CHECK_THROWS_AS(writer.add({"a", {}}), levin::MisuseError);
    writer.finish();
    CHECK(writer.samples() == 3);
    CHECK(writer.shards() == std::vector<fs::path>{folder / "shards/train-000000.tar", folder / "shards/train-000001.tar"});
    writer.add({"lost", {{"txt", ""}}});
  }
  CHECK_FALSE(fs::exists(folder / "shards/train-000002.tar"));
  auto reader = levin::from_shards((folder / "shards/*.tar").string()).read();
  CHECK((*reader.next())["jpg"] == std::string(700, 'x'));
  CHECK((*reader.next()).number("cls") == 2);
  CHECK((*reader.next()).key == long_key);
  CHECK_FALSE(reader.next());
  fs::create_directory(folder / "out");
  for (const char* shard : {"0", "1"}) {
    run(levin::format("tar -C {} -xf {}/shards/train-00000{}.tar", (folder / "out").string(), folder.path().string(), shard));
  }
  CHECK(text_of(folder / "out/0.jpg") == std::string(700, 'x'));
  CHECK(text_of(folder / "out/1.cls") == "2");
  CHECK(text_of(folder / "out" / (long_key + ".txt")) == "three");
}

TEST_CASE("compressed shards hold the bytes of plain ones, for gzip and zstd, and are read back") {
  const levin::test::TemporaryFolder folder;
  const auto write_shards = [&](const std::string& name, levin::Compression compression) {
    levin::ShardWriter writer(folder.path(), name, {.max_samples = 2, .compression = compression});
    std::string bytes(3'000'000, '\0');
    std::uint32_t state = 1;
    for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525U + 1013904223U) >> 28U);
    for (const char* key : {"0", "1", "2"}) writer.add({key, {{"bin", bytes}, {"cls", key}}});
    writer.finish();
    return writer.shards();
  };
  const auto plain = write_shards("plain", levin::Compression::kNone);
  std::vector<std::pair<levin::Compression, std::string>> kinds = {{levin::Compression::kGzip, "gzip"}};
  if (has_zstd()) kinds.emplace_back(levin::Compression::kZstd, "zstd");
  for (const auto& [compression, program] : kinds) {
    INFO(program);
    const auto shards = write_shards(program, compression);
    REQUIRE(shards.size() == 2);
    CHECK(shards[1].filename() == program + "-000001.tar" + levin::ending_of(compression));
    for (std::size_t shard = 0; shard < 2; ++shard) {
      CHECK(fs::file_size(shards[shard]) < fs::file_size(plain[shard]) * 3 / 4);
      run(levin::format("{} -dc {} | cmp - {}", program, shards[shard].string(), plain[shard].string()));
      const auto expected = samples_in(plain[shard]), given = samples_in(shards[shard]);
      REQUIRE(given.size() == expected.size());
      for (std::size_t sample = 0; sample < given.size(); ++sample) CHECK(given[sample].files == expected[sample].files);
    }
    const std::string first = text_of(shards[0]);
    CHECK(text_of(write_shards("again", compression)[0]) == first);
  }
}

TEST_CASE("a tar file that was cut off or damaged is an error with its place") {
  const Folder data;
  const std::string whole = text_of(data.tar("pax"));
  const fs::path file = data.folder / "damaged.tar";
  const auto problem_of = [&](const std::string& bytes) -> std::string {
    write(file, bytes);
    try {
      samples_in(file);
    } catch (const levin::Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(problem_of(whole).empty());
  CHECK_THAT(problem_of(whole.substr(0, 900)), Contains("damaged.tar") && Contains("ends too early"));
  CHECK_THAT(problem_of(whole.substr(0, 300)), Contains("ends too early"));
  std::string wrong = whole;
  wrong[3] = 'X';
  CHECK_THAT(problem_of(wrong), Contains("byte 512: this is not the header of a tar file"));
  CHECK_THAT(problem_of(std::string(5000, 'q')), Contains("not the header"));
  std::string large = levin::tar_header("a.txt", 0);
  large.replace(124, 12, std::string("\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12));
  CHECK_THAT(problem_of(large), Contains("not the header") || Contains("too large"));
  CHECK_THAT(problem_of(levin::tar_header("a.txt", 1'000'000)), Contains("ends too early"));
  CHECK(problem_of("").empty());
  CHECK_THROWS_WITH(samples_in(data.folder.path()), Contains("not a file"));
  CHECK_THROWS_WITH(samples_in(data.folder / "none.tar"), Contains("No such file"));
  const fs::path cut = data.folder / "cut.tar.gz";
  write(cut, text_of(data.tar("pax", "-z")).substr(0, 200));
  CHECK_THROWS_WITH(samples_in(cut), Contains("ends too early"));
}
