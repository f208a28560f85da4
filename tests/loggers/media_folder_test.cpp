#include "levin/loggers/media_folder.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <set>
#include <string>

#include "levin/core/base/error.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using levin::test::read_text;
using levin::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

LoggedItem text_item(std::string name, std::int64_t step, int rank = 0) {
  return {.name = std::move(name), .step = step, .rank = rank, .content = LoggedText{"of " + std::to_string(step)}};
}

/// Paths of all files below a folder, relative to it.
std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.insert(entry.path().lexically_relative(folder).string());
  }
  return files;
}

}  // namespace

TEST_CASE("each kind has its folder, each name its own in it, and each step a file") {
  const TemporaryFolder run;
  std::ofstream(run / "notes.tar.gz") << "a file of the user's";
  MediaFolder media(run.path());
  media.write({.name = "samples", .step = 120, .content = LoggedImage{.png = "the bytes"}});
  media.write({.name = "encoder/weight",
               .step = 3,
               .content = LoggedHistogram{.limits = {0.5, 1}, .counts = {2, 3}, .nans = 4, .infinities = 1}});
  media.write(text_item("note", 1234567));
  media.write({.name = "errors",
               .step = 0,
               .content = Table{{"image", "taken, for"}, {{12, "say \"one\""}, {1.0, nullptr}, {true, "b"}}}});
  media.write({.name = "config", .step = 5, .content = LoggedFile{run / "notes.tar.gz"}});
  const fs::path folder = run / "media";
  CHECK(files_below(folder) == std::set<std::string>{"images/samples/000120.png", "histograms/encoder/weight/000003.csv",
                                                     "texts/note/1234567.txt", "tables/errors/000000.csv",
                                                     "files/config/000005_notes.tar.gz"});
  CHECK(read_text(folder / "images/samples/000120.png") == "the bytes");
  CHECK(read_text(folder / "histograms/encoder/weight/000003.csv") == "up_to,count\n0.5,2\n1.0,3\nnan,4\ninf or -inf,1\n");
  CHECK(read_text(folder / "texts/note/1234567.txt") == "of 1234567");
  CHECK(read_text(folder / "tables/errors/000000.csv") == "image,\"taken, for\"\n12,\"say \"\"one\"\"\"\n1.0,\ntrue,b\n");
  CHECK(read_text(folder / "files/config/000005_notes.tar.gz") == "a file of the user's");
}

TEST_CASE("ranks and items of one name and step have different files") {
  const TemporaryFolder run;
  MediaFolder media(run.path());
  media.write(text_item("note", 1));
  media.write(text_item("note", 1));
  media.write(text_item("other", 1));
  media.write(text_item("note", 1));
  media.write(text_item("note", 2));
  MediaFolder of_rank(run.path());
  of_rank.write(text_item("note", 1, 3));
  of_rank.write(text_item("note", 1, 3));
  CHECK(files_below(run / "media/texts") == std::set<std::string>{"note/000001.txt", "note/000001_2.txt", "note/000001_3.txt",
                                                                  "note/000002.txt", "other/000001.txt",
                                                                  "note/000001_rank3.txt", "note/000001_rank3_2.txt"});
}

TEST_CASE("a run that resumes writes over what it logs again") {
  const TemporaryFolder run;
  MediaFolder(run.path()).write(text_item("note", 7));
  MediaFolder(run.path()).write({.name = "note", .step = 7, .content = LoggedText{"again"}});
  CHECK(files_below(run / "media") == std::set<std::string>{"texts/note/000007.txt"});
  CHECK(read_text(run / "media/texts/note/000007.txt") == "again");
}

TEST_CASE("no name leads out of the folder, and none is refused by the file system") {
  const TemporaryFolder root;
  const fs::path run = root / "run";
  MediaFolder media(run);
  for (const std::string name : {"../../up", "/etc/cron", "..", ".", "", "a//b", "what?\\*:|<>\"", "tab\there", "../"}) {
    media.write(text_item(name, 1));
  }
  media.write(text_item(std::string(5000, 'x'), 1));
  std::string with_nul = "a";
  with_nul += '\0';
  media.write(text_item(with_nul, 1));
  const std::set<std::string> files = files_below(root.path());
  CHECK(files.size() == 11);  // none has taken the place of another
  for (const std::string& file : files) CHECK(file.starts_with("run/media/texts/"));
  CHECK(files.contains("run/media/texts/__/__/up/000001.txt"));
  CHECK(files.contains("run/media/texts/_/etc/cron/000001.txt"));
  CHECK(files.contains("run/media/texts/what________/000001.txt"));
}

TEST_CASE("a file that is gone is an error with both paths, and leaves nothing") {
  const TemporaryFolder run;
  MediaFolder media(run.path());
  const LoggedItem item{.name = "model", .step = 1, .content = LoggedFile{run / "gone.bin"}};
  CHECK_THROWS_WITH(media.write(item), Catch::Contains("cannot copy " + (run / "gone.bin").string()) &&
                                           Catch::Contains("media/files/model/000001_gone.bin"));
  CHECK(files_below(run.path()).empty());
}
