#include "levin/callbacks/model_checkpoint.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <limits>
#include <map>

#include "callbacks/checkpointed_fit.h"
#include "levin/core/base/error.h"
#include "levin/loggers/csv_logger.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

// Files, best and k-th were made with Lightning's ModelCheckpoint over the same scores, but for the rows of step and time.
TEST_CASE("which checkpoints are kept: the newest, all, or the k best, by epochs, steps, validations or time") {
  struct Row {
    ModelCheckpointOptions options;
    Names files;
    std::string best = {};
    std::string kth = {};
    std::vector<double> scores = {3, 1, 2, 1.5};
    std::function<void(Fit&)> change = {};
  };
  constexpr auto kMax = MonitorMode::kMax;
  const std::string first = "epoch=0-step=4.ckpt", second = "epoch=1-step=8.ckpt", third = "epoch=2-step=12.ckpt",
                    fourth = "epoch=3-step=16.ckpt";
  const Names all{first, second, third, fourth};
  for (const Row& row : std::vector<Row>{
           {{}, {fourth}, fourth},
           {{.save_top_k = -1}, all},
           {{.filename = "", .save_top_k = -1}, all},
           {{.save_top_k = -1}, all, fourth, "", {}, [](Fit& fit) { fit.validation_batches = 0; }},
           {{.save_top_k = -1, .every_n_epochs = 2}, {second, fourth}},
           {{.monitor = "val_loss"}, {second}, second},
           {{.monitor = "val_loss", .save_top_k = 2}, {second, fourth}, second, fourth},
           {{.monitor = "val_loss", .save_top_k = 2, .mode = kMax}, {first, third}, first, third},
           {{.monitor = "val_loss", .save_top_k = 2}, {first, second}, first, "", {1}},
           {{.monitor = "val_loss", .save_top_k = 2}, {second, fourth}, fourth, second, {kNan, 2, kNan, 1}},
           {{.save_top_k = -1, .every_n_train_steps = 3},
            {"epoch=0-step=3.ckpt", "epoch=1-step=6.ckpt", third, "epoch=2-step=9.ckpt", "epoch=3-step=15.ckpt"}},
           {{.save_top_k = -1, .every_n_train_steps = 3},
            {"epoch=1-step=3.ckpt", "epoch=2-step=6.ckpt"},
            "",
            "",
            {1},
            [](Fit& fit) { fit.options.accumulate_grad_batches = 2; }},
           {{.monitor = "val_loss", .save_top_k = 2},
            {"epoch=2-step=10.ckpt", third},
            third,
            "",
            {5, 4, 3, 2, 1, 0, 7, 8},
            [](Fit& fit) { fit.options.val_check_interval = Limit(0.5); }},
           {{.monitor = "val_loss", .save_top_k = -1},
            {second, fourth},
            "",
            "",
            {3, 1},
            [](Fit& fit) { fit.options.check_val_every_n_epoch = 2; }},
           {{.filename = "m-{epoch:02d}-{val_loss:.1f}", .monitor = "val_loss", .save_top_k = 2},
            {"m-epoch=01-val_loss=1.0.ckpt", "m-epoch=03-val_loss=1.5.ckpt"}},
           {{.filename = "same", .monitor = "val_loss", .save_top_k = 3},
            {"same.ckpt", "same-v1.ckpt", "same-v2.ckpt"},
            "same-v1.ckpt"},
           {{.filename = "same", .monitor = "val_loss", .save_top_k = 3, .enable_version_counter = false}, {"same.ckpt"}},
           // What is counted needs no log().
           {{.monitor = "step", .save_top_k = 2, .mode = kMax}, {third, fourth}, fourth, third},
           {{.monitor = "step", .save_top_k = 2}, {first, second}, first, second},
           {{.monitor = "epoch", .save_top_k = 3, .mode = kMax}, {second, third, fourth}, fourth, second},
           {{.monitor = "epoch", .save_top_k = 2, .mode = kMax, .every_n_train_steps = 3},
            {third, "epoch=3-step=15.ckpt"},
            "epoch=3-step=15.ckpt",
            third},
           {{.monitor = "step", .save_top_k = 2, .mode = kMax, .every_n_train_steps = 3},
            {third, "epoch=3-step=15.ckpt"},
            "epoch=3-step=15.ckpt",
            third},
           // An interval of no time at all is over after every batch.
           {{.save_top_k = -1, .train_time_interval = std::chrono::seconds(0)},
            {"epoch=0-step=1.ckpt", "epoch=0-step=2.ckpt", "epoch=0-step=3.ckpt", first},
            "",
            "",
            {1},
            [](Fit& fit) { fit.options.max_epochs = 1; }},
           {{.save_last = true, .train_time_interval = std::chrono::hours(24)}, {"last.ckpt"}},
           {{.save_last = true, .save_top_k = 0}, {"last.ckpt"}},
           // Training ends between two triggers.
           {{.save_last = true, .every_n_train_steps = 5}, {"epoch=3-step=15.ckpt", "last.ckpt"}}}) {
    Fit fit(row.options);
    CAPTURE(row.files, row.scores);
    fit.scores = row.scores;
    if (row.change) row.change(fit);
    CHECK(fit.run().files() == row.files);
    if (!row.best.empty()) CHECK(fit.best() == row.best);
    if (!row.kth.empty()) CHECK(fit.kth() == row.kth);
    CHECK(fit.last().empty() != row.options.save_last.enabled());
    if (row.options.save_last.enabled() || !row.options.enable_version_counter) {
      const auto& checkpoint = *fit.checkpoint;
      CHECK(step_of(row.options.save_last.enabled() ? checkpoint.last_model_path() : checkpoint.best_model_path()) == 16);
    }
  }
}

TEST_CASE("scores are told, and a file that is saved in the middle of an epoch has its place in the training data") {
  Fit two({.monitor = "val_loss", .save_top_k = 2});
  two.run();
  CHECK(two.checkpoint->best_model_score() == 1.0);
  CHECK(two.checkpoint->kth_value() == 1.5);
  Fit newest({});
  CHECK_FALSE(newest.run().checkpoint->best_model_score().has_value());
  Fit half({.monitor = "val_loss", .save_top_k = 2});
  half.scores = {5, 4, 3, 2, 1, 0, 7, 8};
  half.options.val_check_interval = Limit(0.5);
  half.run();
  const Checkpoint middle = Checkpoint::load(half.folder / "ckpt" / "epoch=2-step=10.ckpt");
  CHECK(middle.manifest.at("loops").at("batches_done") == Value(2));
}

TEST_CASE("a file that was there before is neither replaced nor removed") {
  Fit fit({.monitor = "val_loss", .save_last = true});
  std::filesystem::create_directories(fit.folder.path() / "ckpt");
  for (const char* name : {"last.ckpt", "epoch=1-step=8.ckpt", "epoch=0-step=4.ckpt"}) {
    std::ofstream(fit.folder.path() / "ckpt" / name) << "somebody else's";
  }
  fit.run();
  CHECK(fit.files() ==
        Names{"last.ckpt", "last-v1.ckpt", "epoch=0-step=4.ckpt", "epoch=1-step=8.ckpt", "epoch=1-step=8-v1.ckpt"});
  CHECK(fit.best() == "epoch=1-step=8-v1.ckpt");
  CHECK(fit.last() == "last-v1.ckpt");
  CHECK(std::filesystem::file_size(fit.folder.path() / "ckpt" / "last.ckpt") == 15);
}

TEST_CASE("last.ckpt is the newest state, whatever is best") {
  Fit copy({.monitor = "val_loss", .save_last = true});
  CHECK(copy.run().files() == Names{"epoch=1-step=8.ckpt", "last.ckpt"});
  CHECK(step_of(copy.checkpoint->last_model_path()) == 16);

  Fit link({.monitor = "val_loss", .save_last = SaveLast::kLink});
  CHECK(link.run().files() == Names{"epoch=1-step=8.ckpt", "last.ckpt"});
  CHECK(step_of(link.checkpoint->last_model_path()) == 16);  // Lightning's still points to step 8

  Fit all({.save_last = SaveLast::kLink, .save_top_k = -1});
  all.run();
  CHECK(std::filesystem::read_symlink(all.checkpoint->last_model_path()) == "epoch=3-step=16.ckpt");
}

TEST_CASE("what is due between two validations is saved when it is due, and has the score of the next one") {
  // Validation is at steps 4, 8, 12 and 16, with scores 3, 1, 2 and 1.5.
  Fit fit({.monitor = "val_loss", .save_top_k = -1, .every_n_train_steps = 3});
  CHECK(fit.run().files() == Names{"epoch=0-step=3.ckpt", "epoch=1-step=6.ckpt", "epoch=2-step=12.ckpt", "epoch=2-step=9.ckpt",
                                   "epoch=3-step=15.ckpt"});
  std::map<std::string, double> scores;
  for (const auto& [file, score] : fit.checkpoint->best_k_models()) {
    scores[std::filesystem::path(file).stem().string()] = score;
  }
  CHECK(scores == std::map<std::string, double>{{"epoch=0-step=3", 3},
                                                {"epoch=1-step=6", 1},
                                                {"epoch=2-step=12", 2},
                                                {"epoch=2-step=9", 2},
                                                {"epoch=3-step=15", 1.5}});
  CHECK(fit.best() == "epoch=1-step=6.ckpt");

  // Of several with one score the newest come first: 12 before 9.
  Fit best_two({.monitor = "val_loss", .save_top_k = 2, .every_n_train_steps = 3});
  CHECK(best_two.run().files() == Names{"epoch=1-step=6.ckpt", "epoch=3-step=15.ckpt"});

  // A value of the training step needs no waiting.
  Fit of_training({.monitor = "train_step", .save_top_k = 2, .mode = MonitorMode::kMax, .every_n_train_steps = 5});
  CHECK(of_training.run().files() == Names{"epoch=2-step=10.ckpt", "epoch=3-step=15.ckpt"});
  CHECK(of_training.checkpoint->best_model_score() == 14.0);
}

TEST_CASE("nothing that was due is lost when training ends before its score is there") {
  Fit fit({.monitor = "val_loss", .save_top_k = 1, .every_n_train_steps = 3});
  fit.options.max_steps = 11;
  // The last validation is at step 8: 6 is the best of what has a score, and 9 has none.
  CHECK(fit.run().files() == Names{"epoch=1-step=6.ckpt", "epoch=2-step=9.ckpt"});
  CHECK(fit.best() == "epoch=1-step=6.ckpt");

  Fit none({.monitor = "val_loss", .save_top_k = 2, .every_n_train_steps = 3});
  none.options.check_val_every_n_epoch = 10;
  CHECK(none.run().files() == Names{"epoch=2-step=12.ckpt", "epoch=3-step=15.ckpt"});
  CHECK(none.checkpoint->best_k_models().empty());
}

TEST_CASE("a monitor that nobody logs is an error that names what there is") {
  Fit fit({.monitor = "val_los"});
  CHECK_THROWS_WITH(fit.run(), Catch::Contains("'val_los'") && Catch::Contains("'val_loss'"));
}

TEST_CASE("a file name that leads out of the folder is refused, unless the folder is an absolute one") {
  for (const char* name : {"../x", "/tmp/x", "{../../x}", "a/../../x", "{epoch}/../{step}"}) {
    CHECK_THROWS_WITH(ModelCheckpoint({.filename = name}), Catch::Contains("filename is '" + std::string(name) + "'"));
    CHECK_THROWS_AS(ModelCheckpoint({.dirpath = "relative", .filename = name}), ConfigError);
    CHECK_NOTHROW(ModelCheckpoint({.dirpath = "/tmp/folder", .filename = name}));
  }
  for (const char* name : {"{epoch}", "a/{epoch}", "..a", "{val/loss:.2f}"}) CHECK_NOTHROW(ModelCheckpoint({.filename = name}));
  CHECK_NOTHROW(ModelCheckpoint({.filename = "{../../x}", .auto_insert_metric_name = false}));
}

TEST_CASE("the state is Lightning's, and goes round") {
  Fit fit({.monitor = "val_loss", .save_last = true, .save_top_k = 2});
  fit.run();
  const Value state = fit.checkpoint->state_dict();
  std::vector<std::string> keys;
  for (const auto& [key, value] : state.as_map()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"monitor", "best_model_score", "best_model_path", "current_score", "dirpath",
                                         "best_k_models", "kth_best_model_path", "kth_value", "last_model_path", "saved_as",
                                         "decisions"});
  CHECK(fit.checkpoint->state_key() ==
        "ModelCheckpoint{'monitor': 'val_loss', 'mode': 'min', 'every_n_train_steps': 0, 'every_n_epochs': 1, "
        "'train_time_interval': None}");
}

TEST_CASE("what a signal ends is saved, once, unless that is not wanted; what an error ends if asked to") {
  const auto files_after = [](ModelCheckpointOptions of_checkpoint, bool by_signal, bool two = false) {
    Fit fit(std::move(of_checkpoint));
    fit.options.callbacks = {fit.checkpoint};
    const ModelCheckpointOptions second{.dirpath = fit.folder.path() / "ckpt", .filename = "second", .monitor = "loss"};
    if (two) fit.options.callbacks.emplace_back(std::make_shared<ModelCheckpoint>(second));
    fit.options.default_root_dir = fit.folder.path();
    Trainer trainer(fit.options);
    ScriptedModule module;
    module.throw_at_batch = 6;
    module.by_signal = by_signal;
    CHECK_THROWS(trainer.fit(module, FixedLoader::of_rows(4, 1)));
    for (const std::string& file : fit.files()) CHECK(step_of(fit.folder / "ckpt" / file) == 6);
    return fit.files();
  };
  const Names saved{"epoch=1-step=6.ckpt"};
  CHECK(files_after({.every_n_epochs = 10}, /*by_signal=*/true) == saved);
  CHECK(files_after({.every_n_epochs = 10}, true, /*two=*/true) == saved);
  CHECK(files_after({.every_n_epochs = 10}, false).empty());
  CHECK(files_after({.save_on_exception = true, .every_n_epochs = 10}, false) == saved);
  CHECK(files_after({.save_top_k = 0}, true).empty());
  CHECK(files_after({.save_on_exception = false, .every_n_epochs = 10}, true).empty());
}

TEST_CASE("without a logger checkpoints go below default_root_dir, and best and last can be asked for") {
  TemporaryFolder folder;
  const auto checkpoint = std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.monitor = "val_loss", .save_last = true});
  TrainerOptions options = quiet_options(3);
  options.callbacks = {checkpoint};
  options.default_root_dir = folder.path();
  Trainer trainer(options);
  ScriptedModule module({3, 1, 2});
  trainer.fit(module, FixedLoader::of_rows(4, 1), {FixedLoader::of_rows(1, 1)});
  CHECK(file_names(folder.path() / "checkpoints") == Names{"epoch=1-step=8.ckpt", "last.ckpt"});
  const at::Tensor newest = module.parameters().front().clone();
  trainer.test(module, {FixedLoader::of_rows(1, 1)}, {.ckpt_path = "best", .verbose = false});
  CHECK_FALSE(at::equal(module.parameters().front(), newest));
  CHECK(at::equal(module.parameters().front(),
                  Checkpoint::load(checkpoint->best_model_path()).tensors.at("state_dict.layer.weight")));
  trainer.test(module, {FixedLoader::of_rows(1, 1)}, {.ckpt_path = "last", .verbose = false});
  CHECK(at::equal(module.parameters().front(), newest));
}

TEST_CASE("a folder that is named relative to where one is stays the same once it is there") {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  Fit first({.dirpath = "new/ckpt", .save_last = true});
  first.run();
  Fit second({.dirpath = "new/ckpt", .save_last = true});
  second.options.max_epochs = 6;
  second.options.log_file = folder / "log";
  second.scores = {3, 1, 2, 1.5, 1.2, 1.1};
  second.run({.ckpt_path = "new/ckpt/last.ckpt"});
  fs::current_path(before);
  CHECK(read_text(folder / "log").find("files of the previous run stay") == std::string::npos);
}

TEST_CASE("best and last are those of the experiment, by the logger's name, and not of whatever ran last") {
  const TemporaryFolder folder;
  const auto options = [&](const std::string& name, std::int64_t epochs) {
    TrainerOptions options = quiet_options(epochs);
    options.default_root_dir = folder.path();
    options.logger = std::make_shared<CsvLogger>(CsvLoggerOptions{.name = name});
    options.callbacks = {std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.monitor = "val_loss"})};
    return options;
  };
  const auto fit = [&](const std::string& name, std::vector<double> scores) {
    ScriptedModule module(std::move(scores));
    Trainer trainer(options(name, 2));
    trainer.fit(module, FixedLoader::of_rows(4, 1), {FixedLoader::of_rows(1, 1)});
    return trainer.callback<ModelCheckpoint>()->best_model_path();
  };
  const std::string first = fit("a", {1, 2});
  const std::string second = fit("a", {2, 1});
  fit("b", {1, 2});
  const auto weight_after = [&](const std::string& ckpt_path) {
    ScriptedModule module;
    Trainer trainer(options("a", 2));
    trainer.test(module, {FixedLoader::of_rows(1, 1)}, {.ckpt_path = ckpt_path, .verbose = false});
    return module.parameters().front().clone();
  };
  const auto weight_in = [](const std::string& file) { return Checkpoint::load(file).tensors.at("state_dict.layer.weight"); };
  CHECK(at::equal(weight_after("best"), weight_in(second)));
  CHECK(at::equal(weight_after("last"), weight_in(second)));
  CHECK(at::equal(weight_after((folder / "a/version_0").string() + ":best"), weight_in(first)));
  CHECK(at::equal(weight_after((folder / "a/version_0").string()), weight_in(first)));
}

TEST_CASE("an error about a checkpoint names its file") {
  Fit first({});
  first.run();
  const std::string file = first.checkpoint->best_model_path();
  struct Other : ScriptedModule {
    Other() { register_module("more", torch::nn::Linear(1, 1)); }
  } other;
  Trainer trainer(first.options);
  CHECK_THROWS_WITH(trainer.test(other, {FixedLoader::of_rows(1, 1)}, {.ckpt_path = file}), Contains(file));
  struct TwoOptimizers : ScriptedModule {
    OptimizerSetups configure_optimizers() override { return {}; }
  } two;
  CHECK_THROWS_WITH(trainer.fit(two, FixedLoader::of_rows(4, 1), {}, {.ckpt_path = file}),
                    Contains(file) && Contains("optimizers"));
}

TEST_CASE("two ModelCheckpoints that would write the same files are an error before the run") {
  const TemporaryFolder folder;
  const auto error = [&](ModelCheckpointOptions first, ModelCheckpointOptions second) -> std::string {
    TrainerOptions options = quiet_options(1);
    options.default_root_dir = folder.path();
    options.callbacks = {std::make_shared<ModelCheckpoint>(std::move(first)),
                         std::make_shared<ModelCheckpoint>(std::move(second))};
    ScriptedModule module({1});
    try {
      Trainer(options).fit(module, FixedLoader::of_rows(1, 1), {FixedLoader::of_rows(1, 1)});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(error({}, {}), Contains("two callbacks have the same state_key()"));
  CHECK_THAT(error({.monitor = "val_loss", .enable_version_counter = false}, {}),
             Contains("would write the same files ('{epoch}-{step}.ckpt')"));
  CHECK_THAT(
      error({.filename = "a", .monitor = "val_loss", .save_last = true}, {.save_last = true, .enable_version_counter = false}),
      Contains("would write the same files ('last.ckpt')"));
  CHECK_FALSE(fs::exists(folder / "checkpoints"));
  CHECK(error({.monitor = "val_loss"}, {}).empty());
  CHECK(error({.dirpath = folder / "a", .monitor = "val_loss", .enable_version_counter = false}, {}).empty());
}

TEST_CASE("fast_dev_run and evaluation save nothing") {
  Fit dry({.save_last = true});
  dry.options.fast_dev_run = 2;
  CHECK(dry.run().files().empty());
}

TEST_CASE("when a checkpoint comes next is told without the number of an epoch, which screens count from 1 and files from 0") {
  struct Asking : Callback {
    explicit Asking(const ModelCheckpoint& asked) : checkpoint(asked) {}
    void on_train_epoch_start(Trainer& trainer, Module&) override { answers.push_back(checkpoint.next_save(trainer)); }
    const ModelCheckpoint& checkpoint;
    std::vector<std::string> answers;
  };
  const TemporaryFolder folder;
  const auto answers = [&](ModelCheckpointOptions options) {
    options.dirpath = folder.path();
    const auto checkpoint = std::make_shared<ModelCheckpoint>(std::move(options));
    const auto asking = std::make_shared<Asking>(*checkpoint);
    TrainerOptions of_trainer = quiet_options(4);
    of_trainer.callbacks = {checkpoint, asking};
    of_trainer.default_root_dir = folder.path();
    Trainer trainer(of_trainer);
    ScriptedModule module({1});
    trainer.fit(module, FixedLoader::of_rows(4, 1));
    return asking->answers;
  };
  const std::string now = "after this epoch";
  CHECK(answers({}) == std::vector<std::string>{now, now, now, now});
  CHECK(answers({.every_n_epochs = 3}) == std::vector<std::string>{"after 3 epochs", "after 2 epochs", now, "after 3 epochs"});
  CHECK(answers({.every_n_train_steps = 6}) ==
        std::vector<std::string>{"in 6 steps", "in 2 steps", "in 4 steps", "in 6 steps"});
}
