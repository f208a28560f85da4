#include "levin/cli/report/run_media.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "levin/core/config/value_json.h"
#include "levin/core/files/atomic_file.h"
#include "support/temporary_folder.h"

using levin::write_file;
using levin::cli::base64;
using levin::cli::embed_media;
using levin::cli::EmbeddedMedia;
using levin::cli::find_media;
using levin::cli::MediaSeries;
using levin::test::TemporaryFolder;

TEST_CASE("bytes become letters") {
  CHECK(base64("").empty());
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(base64("\xff\xfe\xfd") == "//79");
}

TEST_CASE("media are found by kind and key, the newest twelve by step") {
  const TemporaryFolder run;
  for (int step = 0; step < 20; ++step)
    write_file(run / ("media/images/val/digits/" + std::to_string(step * 100) + ".png"), "x");
  write_file(run / "media/images/val/digits/notes.txt", "x");
  write_file(run / "media/images/val/digits/12a.png", "x");
  write_file(run / "media/texts/samples/000007_rank1.txt", "x");
  write_file(run / "media/texts/samples/000007_rank1_2.txt", "x");
  write_file(run / "media/files/plot/000007_loss.svg", "x");
  write_file(run / "media/files/plot/000007_loss.bin", "x");
  const std::vector<MediaSeries> series = find_media(run.path(), 3);
  REQUIRE(series.size() == 3);
  CHECK(series[0].kind == "images");
  CHECK(series[0].key == "val/digits");
  CHECK(series[0].run == 3);
  REQUIRE(series[0].files.size() == 12);
  CHECK(series[0].files.front().step == 800);
  CHECK(series[0].files.back().step == 1900);
  CHECK(series[1].kind == "figures");
  CHECK(series[1].key == "plot");
  CHECK(series[1].files.at(0).part == "loss");
  CHECK(series[2].kind == "texts");
  CHECK(series[2].key == "samples, rank 1");
  REQUIRE(series[2].files.size() == 2);
  CHECK(series[2].files[0].part.empty());
  CHECK(series[2].files[1].part == "2");
  CHECK(find_media(run / "none", 0).empty());
}

TEST_CASE("each kind is embedded as the page shows it, and what is not of its kind is left out") {
  const TemporaryFolder run;
  write_file(run / "media/images/a/1.png", "\x89PNG and so on");
  write_file(run / "media/images/a/2.png", "<script>");
  write_file(run / "media/files/b/1_x.svg", "<svg onload='alert(1)'/>");
  write_file(run / "media/histograms/h/1.csv", "up_to,count\n0.5,2\n");
  write_file(run / "media/texts/c/1.txt", "<b>text</b>");
  write_file(run / "media/tables/d/1.csv", "name,count\n\"a,b\",2\n");
  const EmbeddedMedia media = embed_media(find_media(run.path(), 0), 1000);
  CHECK(media.left_out == 1);
  CHECK(
      levin::to_json(media.series) ==
      R"([{"run":0,"kind":"images","key":"a","items":[{"step":1,"part":"","data":"data:image/png;base64,iVBORyBhbmQgc28gb24="}]},)"
      R"({"run":0,"kind":"figures","key":"b","items":[{"step":1,"part":"x","data":)"
      R"("data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9J2FsZXJ0KDEpJy8+"}]},)"
      R"({"run":0,"kind":"histograms","key":"h","items":[{"step":1,"part":"","data":[["up_to","count"],["0.5","2"]]}]},)"
      R"({"run":0,"kind":"texts","key":"c","items":[{"step":1,"part":"","data":"<b>text</b>"}]},)"
      R"({"run":0,"kind":"tables","key":"d","items":[{"step":1,"part":"","data":[["name","count"],["a,b","2"]]}]}])");
}

TEST_CASE("where there is no room, each series has its newest before another has two") {
  const TemporaryFolder run;
  for (const char* file : {"a/1", "a/2", "b/1", "b/2"})
    write_file(run / "media/texts" / (std::string(file) + ".txt"), "0123456789");
  const EmbeddedMedia media = embed_media(find_media(run.path(), 0), 35);
  CHECK(media.left_out == 1);
  REQUIRE(media.series.size() == 2);
  CHECK(media.series.as_list()[0].at("items").size() == 2);
  CHECK(media.series.as_list()[1].at("items").size() == 1);
  CHECK(media.series.as_list()[1].at("items").as_list()[0].at("step").as_int() == 2);
}

TEST_CASE("links among media are not followed: a page is passed on, and what they lead to may be nobody's business") {
  const TemporaryFolder folder;
  namespace fs = std::filesystem;
  write_file(folder / "elsewhere/1.txt", "precious");
  write_file(folder / "run/media/texts/a/1.txt", "text");
  fs::create_symlink(folder / "elsewhere/1.txt", folder / "run/media/texts/a/2.txt");
  fs::create_directory_symlink(folder / "elsewhere", folder / "run/media/texts/b");
  fs::create_directory_symlink(folder / "elsewhere", folder / "run/media/tables");
  fs::create_directories(folder / "linked");
  fs::create_directory_symlink(folder / "run/media", folder / "linked/media");
  const EmbeddedMedia media = embed_media(find_media(folder / "run", 0), 1000);
  REQUIRE(media.series.size() == 1);
  CHECK(media.series.as_list()[0].at("key") == levin::Value("a"));
  CHECK(media.series.as_list()[0].at("items").size() == 1);
  CHECK(find_media(folder / "linked", 0).empty());
  // What becomes a link after it was found.
  auto found = find_media(folder / "run", 0);
  fs::remove(folder / "run/media/texts/a/1.txt");
  fs::create_symlink(folder / "elsewhere/1.txt", folder / "run/media/texts/a/1.txt");
  CHECK(embed_media(found, 1000).left_out == 1);
}
