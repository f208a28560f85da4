// A user's program whose run fails: at a chosen place, in a chosen manner, on a chosen rank. Run by failure_*_test.
// Arguments, as name=value: entry=, ranks=, folder=, place=, manner=, rank=, and, where they are given, control_group=,
// save_on_exception=1, stall_report= and timeout= (seconds), max_epochs=, log_file=, then= (manner of a second failure, in
// on_exception)
#include <time.h>
#include <torch/torch.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <set>

#include "distributed/fail_in.h"
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "levin/core/data_module.h"
#include "levin/core/logger.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "levin/optim/lr_schedulers.h"
#include "support/recording.h"

namespace levin::test::failure_program {

namespace {

/// Where, when, how and on which rank the run fails.
struct Plan {
  explicit Plan(const Settings& settings)
      : place(settings.text("place")),
        manner(settings.text("manner")),
        second_manner(settings.text("then")),
        rank(settings.number("rank")),
        folder(settings.text("folder")) {
    const char* const variable = std::getenv("RANK");
    own_rank = variable != nullptr ? std::stoi(variable) : -2;  // the launcher itself is no rank
  }

  /// Called at each place. Fails when it is the place of the plan and its time has come: places that come in each epoch fail in
  /// the second one, after metrics and checkpoints of the first were written. First it writes `folder/failed_at`: the time on
  /// CLOCK_MONOTONIC in nanoseconds, and where this is.
  void reach(const std::string& reached) {
    static const std::set<std::string> kOnce = {"prepare_data",
                                                "setup",
                                                "open",
                                                "configure_callbacks",
                                                "configure_model",
                                                "configure_optimizers",
                                                "on_fit_start",
                                                "on_sanity_check_start",
                                                "on_sanity_check_end",
                                                "on_train_start",
                                                "train_dataloader",
                                                "val_dataloaders"};
    if (reached != place || !is_own_turn()) return;
    if (trains && epoch == 0 && !kOnce.contains(place.substr(place.find('.') + 1))) return;
    if (done.exchange(true)) return;
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const std::filesystem::path temporary = folder / ("failed_at." + std::to_string(getpid()));
    std::ofstream(temporary) << std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec << "\n"
                             << (describe ? describe() : "") << "\n";
    std::filesystem::rename(temporary, folder / "failed_at");
    levin::test::fail_in(manner, own_rank);
  }
  /// A hook, as HookTrace names it: "M.training_step", "C.setup(fit)".
  void reach_hook(const std::string& entry) {
    if (entry == "M.on_exception" && is_own_turn()) levin::test::fail_in(second_manner);
    reach((entry.starts_with("M") ? "module" : "callback") + entry.substr(1, entry.find('(') - 1));
  }
  bool is_own_turn() const { return own_rank >= 0 && (rank < 0 || rank == own_rank); }

  std::string place;  ///< "module.training_step", "callback.setup", "train_loader.next", …
  std::string manner;
  std::string second_manner;  ///< of failing while failing
  int rank;                   ///< on this one; -1: on all
  std::filesystem::path folder;
  int own_rank = 0;
  bool trains = false;  ///< otherwise everything comes once
  std::atomic<std::int64_t> epoch{0};
  std::atomic<bool> done{false};
  /// What the error must say of the place: "training_step (train, epoch 1, step 4)". Unset: the run has not begun.
  std::function<std::string()> describe;
};

class FailingModule : public RecordingModule {
 public:
  FailingModule(Plan& plan, HookTrace& trace) : RecordingModule(trace), plan_(plan) {}
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    if (batch_idx == 1) plan_.reach("module.training_step");
    const at::Tensor loss = layer_->forward(batch[0]).pow(2).mean();
    log("train_loss", loss, {.on_step = true, .on_epoch = true});
    return loss;
  }
  OptimizerSetups make_optimizers() override {
    const auto optimizer = std::make_shared<torch::optim::SGD>(parameters(), 0.1);
    return {optimizer, {{.scheduler = std::make_shared<StepLr>(*optimizer, StepLrOptions{.step_size = 1})}}};
  }
  void on_train_epoch_start() override {
    plan_.epoch = current_epoch();
    RecordingModule::on_train_epoch_start();
  }
  void on_validation_model_train() override { plan_.reach("module.on_validation_model_train"); }

 private:
  Plan& plan_;
};

class FailingCallback : public RecordingCallback {
 public:
  FailingCallback(Plan& plan, HookTrace& trace) : RecordingCallback(trace), plan_(plan) {}
  void on_rank_metrics(Trainer&, Module&, const MetricRow&, const std::vector<MetricMap>&) override {
    plan_.reach("callback.on_rank_metrics");
  }

 private:
  Plan& plan_;
};

class FailingLogger : public Logger {
 public:
  explicit FailingLogger(Plan& plan) : plan_(plan) {}
  std::string open(const RunInfo&) override {
    plan_.reach("logger.open");
    return "";
  }
  void log_metrics(const MetricRow&) override { plan_.reach("logger.log_metrics"); }
  void save() override { plan_.reach("logger.save"); }
  void finalize(const std::string& status) override {
    if (status == "success") plan_.reach("logger.finalize");
  }

 private:
  Plan& plan_;
};

/// Read by a worker thread.
class FailingDataset : public Dataset {
 public:
  explicit FailingDataset(Plan& plan) : plan_(plan) {}
  std::int64_t size() const override { return 24; }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    plan_.reach("worker.get_batch");
    at::Tensor rows = torch::empty({static_cast<std::int64_t>(indices.size()), 2});
    for (std::size_t row = 0; row < indices.size(); ++row) rows[static_cast<std::int64_t>(row)].fill_(indices[row] / 24.0);
    return rows;
  }

 private:
  Plan& plan_;
};

/// Another loader's batches.
class FailingLoader : public BatchLoader {
 public:
  FailingLoader(Plan& plan, LoaderPtr inner, std::string place)
      : plan_(plan), inner_(std::move(inner)), place_(std::move(place)) {}
  std::optional<std::int64_t> size() const override { return inner_->size(); }
  std::optional<std::int64_t> batch_size() const override { return inner_->batch_size(); }
  void start_epoch(std::int64_t epoch) override { inner_->start_epoch(epoch); }
  void set_shard(const Shard& shard) override { inner_->set_shard(shard); }
  std::optional<Batch> next() override {
    plan_.reach(place_);
    return inner_->next();
  }

 private:
  Plan& plan_;
  LoaderPtr inner_;
  std::string place_;
};

class FailingData : public DataModule {
 public:
  explicit FailingData(Plan& plan) : plan_(plan) {}
  void prepare_data() override { plan_.reach("data.prepare_data"); }
  void setup(Stage) override { plan_.reach("data.setup"); }
  LoaderPtr train_dataloader() override {
    plan_.reach("data.train_dataloader");
    return loader("train_loader.next", 1);
  }
  LoaderList val_dataloaders() override {
    plan_.reach("data.val_dataloaders");
    return {loader("val_loader.next", 0)};
  }
  LoaderList test_dataloaders() override {
    plan_.reach("data.test_dataloaders");
    return {loader("test_loader.next", 0)};
  }
  LoaderList predict_dataloaders() override { return {loader("predict_loader.next", 0)}; }
  Value state_dict() const override {
    plan_.reach("data.state_dict");
    return {};
  }

 private:
  LoaderPtr loader(const std::string& place, int workers) const {
    const auto dataset = std::make_shared<FailingDataset>(plan_);
    const auto inner = std::make_shared<DataLoader>(dataset, DataLoaderOptions{.batch_size = 2, .num_workers = workers});
    return std::make_shared<FailingLoader>(plan_, inner, place);
  }
  Plan& plan_;
};

TrainerOptions options_for(const Settings& settings, Plan& plan, HookTrace& trace) {
  TrainerOptions options;
  options.max_epochs = settings.number("max_epochs", 2);
  if (plan.is_own_turn() && settings.has("log_file")) options.log_file = settings.text("log_file");
  options.accelerator = "cpu";
  options.devices = Devices(settings.number("ranks"));
  Value strategy(Value::Map{});
  strategy["control_group"] = settings.text("control_group", "auto");
  options.strategy = Component<Strategy>(Value("ddp"), strategy);
  Value checkpoints(Value::Map{});
  checkpoints["save_on_exception"] = settings.number("save_on_exception") == 1;
  checkpoints["save_top_k"] = options.max_epochs == 2 ? -1 : 1;
  // Files that are written in the background when rank 0's process dies are missing.
  checkpoints["async"] = plan.rank != 0;
  // The loggers' folder on other ranks than 0 is known once the run is set up.
  checkpoints["dirpath"] = (plan.folder / "checkpoints").string();
  options.callbacks = {std::make_shared<FailingCallback>(plan, trace),
                       Component<Callback>(Value("ModelCheckpoint"), checkpoints)};
  options.logger = Loggers{Component<Logger>("CSVLogger"), std::make_shared<FailingLogger>(plan)};
  options.enable_progress_bar = false;
  options.enable_model_summary = false;
  options.log_every_n_steps = 1;
  options.num_sanity_val_steps = 1;
  options.default_root_dir = plan.folder;
  options.stall_report_seconds = settings.number("stall_report", 60);
  options.timeout_seconds = settings.number("timeout", 600);
  return options;
}

/// "training_step (train, epoch 1, step 4)", from the place of the plan and where the Trainer is.
std::string describe_place(const Plan& plan, const Trainer& trainer) {
  std::string hook = plan.place.substr(plan.place.find('.') + 1);
  const std::map<std::string, std::string> in_hook{{"train_loader.next", "train_dataloader"},
                                                   {"val_loader.next", "val_dataloaders"},
                                                   {"test_loader.next", "test_dataloaders"},
                                                   {"predict_loader.next", "predict_dataloaders"},
                                                   {"worker.get_batch", "train_dataloader"},
                                                   {"data.val_dataloaders", "val_dataloaders"},
                                                   {"data.test_dataloaders", "test_dataloaders"},
                                                   {"logger.open", "setup"},
                                                   {"logger.save", "log_metrics"},
                                                   {"logger.finalize", "log_metrics"}};
  if (const auto found = in_hook.find(plan.place); found != in_hook.end()) hook = found->second;
  return hook + " (" + std::string(stage_name(trainer.stage())) + ", epoch " + std::to_string(trainer.current_epoch()) +
         ", step " + std::to_string(trainer.global_step()) + ")";
}

void run(const Settings& settings) {
  Plan plan(settings);
  std::filesystem::current_path(plan.folder);  // by which tests find the run's processes
  plan.reach("main.start");
  HookTrace trace;
  trace.on_entry = [&](const std::string& entry) { plan.reach_hook(entry); };
  Trainer trainer(options_for(settings, plan, trace));
  plan.describe = [&] { return describe_place(plan, trainer); };
  FailingModule module(plan, trace);
  FailingData data(plan);
  const std::string entry = settings.text("entry");
  plan.trains = entry == "fit";
  if (entry == "fit") trainer.fit(module, data);
  if (entry == "validate") trainer.validate(module, data);
  if (entry == "test") trainer.test(module, data);
  if (entry == "predict") trainer.predict(module, data);
}

const RankProgram program("failure", run);

}  // namespace

}  // namespace levin::test::failure_program
