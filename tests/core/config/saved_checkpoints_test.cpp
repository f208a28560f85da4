#include "levin/core/config/saved_checkpoints.h"

#include <catch2/catch.hpp>

#include "levin/core/config/value_json.h"

using levin::parse_json;
using levin::SavedCheckpoints;

TEST_CASE("the files of a callback are read from a state as ModelCheckpoint's, in levin and Lightning") {
  const auto saved = SavedCheckpoints::read(parse_json(R"({
    "monitor": "val_loss", "best_model_score": 0.25, "best_model_path": "/run/best.ckpt", "current_score": 0.5,
    "dirpath": "/run", "best_k_models": {"/run/best.ckpt": 0.25, "/run/second.ckpt": 1}, "kth_value": 1,
    "last_model_path": "/run/last.ckpt", "saved_as": "/run/second.ckpt"})"));
  CHECK(saved.monitor == "val_loss");
  CHECK(saved.best_model_path == "/run/best.ckpt");
  CHECK(saved.last_model_path == "/run/last.ckpt");
  CHECK(saved.saved_as == "/run/second.ckpt");
  CHECK(saved.best_model_score == 0.25);
  CHECK(saved.best_k_models == std::map<std::string, double>{{"/run/best.ckpt", 0.25}, {"/run/second.ckpt", 1}});
  CHECK(saved.score_text(0.12345) == "val_loss 0.1235");
  CHECK(saved.score_text(std::nullopt).empty());
}

TEST_CASE("what a state lacks, or has of another type, is unset") {
  for (const char* const text :
       {"null", "{}", "[1, 2]", R"("text")",
        R"({"monitor": null, "best_model_score": "low", "best_model_path": 3, "best_k_models": ["a"]})",
        R"({"best_k_models": {"a": null}})"}) {
    INFO(text);
    const auto saved = SavedCheckpoints::read(parse_json(text));
    CHECK(saved.monitor.empty());
    CHECK(saved.best_model_path.empty());
    CHECK_FALSE(saved.best_model_score);
    CHECK(saved.best_k_models.empty());
    CHECK(saved.score_text(1).empty());
  }
}

TEST_CASE("all callbacks of a manifest are read, in their order; a manifest without callbacks has none") {
  const auto all = SavedCheckpoints::read_all(
      parse_json(R"({"callbacks": {"B": {"monitor": "b"}, "EarlyStopping": {"wait_count": 1}, "A": {"monitor": "a"}}})"));
  REQUIRE(all.size() == 3);
  CHECK(all[0].monitor == "b");
  CHECK(all[1].monitor.empty());
  CHECK(all[2].monitor == "a");
  CHECK(SavedCheckpoints::read_all(parse_json(R"({"callbacks": [1]})")).empty());
  CHECK(SavedCheckpoints::read_all(parse_json("null")).empty());
}
