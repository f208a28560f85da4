// A user's program whose run fails: at a chosen place, in a chosen manner, on a chosen rank. Run by failure_*_test.
// Arguments: entry point, number of ranks, folder, place, manner, rank, then name=value:
//   control_group=gloo, save_on_exception=1, stall_report=seconds, timeout=seconds, max_epochs=number, log_file=file,
//   then=manner (the second failure, in on_exception)
#include <torch/torch.h>

#include <map>
#include <optional>

#include "distributed/failure_plan.h"
#include "distributed/rank_program.h"
#include "levin/core/data_module.h"
#include "levin/core/logger.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "levin/optim/lr_schedulers.h"

namespace {

using namespace levin;
using levin::test::FailurePlan;

constexpr bool kOnce = false;
constexpr bool kEachEpoch = true;

struct Plan : FailurePlan {
  bool trains = false;        ///< otherwise everything comes once
  std::string second_manner;  ///< of failing while failing
  void at(const std::string& reached, bool comes_each_epoch) { reach(reached, trains && comes_each_epoch); }
};

// A place in the module, with the arguments' names left out; and the same that goes on with what the base class does.
#define PLACE(name, parameters, frequency) \
  void name parameters override { plan_.at("module." #name, frequency); }
#define PLACE_AND_CALL(type, name, parameters, arguments, frequency) \
  type name parameters override {                                    \
    plan_.at("module." #name, frequency);                            \
    return Module::name arguments;                                   \
  }

class FailingModule : public Module {
 public:
  explicit FailingModule(Plan& plan) : plan_(plan), layer_(register_module("layer", torch::nn::Linear(2, 1))) {}

  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    if (batch_idx == 1) plan_.at("module.training_step", kEachEpoch);
    const at::Tensor loss = layer_->forward(batch[0]).pow(2).mean();
    log("train_loss", loss, {.on_step = true, .on_epoch = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    plan_.at("module.validation_step", kEachEpoch);
    log("val_loss", layer_->forward(batch[0]).pow(2).mean());
  }
  void test_step(const Batch& batch, std::int64_t) override {
    plan_.at("module.test_step", kEachEpoch);
    log("test_loss", layer_->forward(batch[0]).pow(2).mean());
  }
  Batch predict_step(const Batch& batch, std::int64_t) override {
    plan_.at("module.predict_step", kEachEpoch);
    return layer_->forward(batch[0]);
  }
  OptimizerSetups configure_optimizers() override {
    plan_.at("module.configure_optimizers", kOnce);
    const auto optimizer = std::make_shared<torch::optim::SGD>(parameters(), 0.1);
    return {optimizer, {{.scheduler = std::make_shared<StepLr>(*optimizer, StepLrOptions{.step_size = 1})}}};
  }
  void on_train_epoch_start() override {
    plan_.epoch = current_epoch();
    plan_.at("module.on_train_epoch_start", kEachEpoch);
  }
  std::vector<std::shared_ptr<Callback>> configure_callbacks() override {
    plan_.at("module.configure_callbacks", kOnce);
    return {};
  }

  PLACE(prepare_data, (), kOnce)
  PLACE(setup, (Stage), kOnce)
  PLACE(configure_model, (), kOnce)
  PLACE(on_fit_start, (), kOnce)
  PLACE(on_train_start, (), kOnce)
  PLACE_AND_CALL(Batch, on_before_batch_transfer, (Batch batch, std::int64_t index), (std::move(batch), index), kEachEpoch)
  PLACE_AND_CALL(Batch, transfer_batch_to_device, (Batch batch, const at::Device& device, std::int64_t index),
                 (std::move(batch), device, index), kEachEpoch)
  PLACE_AND_CALL(Batch, on_after_batch_transfer, (Batch batch, std::int64_t index), (std::move(batch), index), kEachEpoch)
  PLACE(on_train_batch_start, (const Batch&, std::int64_t), kEachEpoch)
  PLACE(on_before_zero_grad, (torch::optim::Optimizer&), kEachEpoch)
  PLACE_AND_CALL(void, optimizer_zero_grad, (torch::optim::Optimizer & optimizer), (optimizer), kEachEpoch)
  PLACE(on_before_backward, (const at::Tensor&), kEachEpoch)
  PLACE_AND_CALL(void, backward, (const at::Tensor& loss), (loss), kEachEpoch)
  PLACE(on_after_backward, (), kEachEpoch)
  PLACE(on_before_optimizer_step, (torch::optim::Optimizer&), kEachEpoch)
  PLACE_AND_CALL(void, configure_gradient_clipping, (torch::optim::Optimizer & optimizer), (optimizer), kEachEpoch)
  PLACE_AND_CALL(void, optimizer_step, (torch::optim::Optimizer & optimizer, const std::function<at::Tensor()>& closure),
                 (optimizer, closure), kEachEpoch)
  PLACE_AND_CALL(void, lr_scheduler_step, (LrScheduler & scheduler, std::optional<double> metric), (scheduler, metric),
                 kEachEpoch)
  PLACE(on_train_batch_end, (const StepOutput&, const Batch&, std::int64_t), kEachEpoch)
  PLACE(on_train_epoch_end, (), kEachEpoch)
  PLACE(on_train_end, (), kOnce)
  PLACE(on_fit_end, (), kOnce)
  PLACE(teardown, (Stage), kOnce)
#define PLACES_OF_EVALUATION(stage)                                                       \
  PLACE_AND_CALL(void, on_##stage##_model_eval, (), (), kEachEpoch)                       \
  PLACE_AND_CALL(void, on_##stage##_model_train, (), (), kEachEpoch)                      \
  PLACE(on_##stage##_start, (), kEachEpoch)                                               \
  PLACE(on_##stage##_epoch_start, (), kEachEpoch)                                         \
  PLACE(on_##stage##_batch_start, (const Batch&, std::int64_t, std::int64_t), kEachEpoch) \
  PLACE(on_##stage##_epoch_end, (), kEachEpoch)                                           \
  PLACE(on_##stage##_end, (), kEachEpoch)
  PLACES_OF_EVALUATION(validation)
  PLACES_OF_EVALUATION(test)
  PLACES_OF_EVALUATION(predict)
#undef PLACES_OF_EVALUATION
  PLACE_AND_CALL(void, on_validation_model_zero_grad, (), (), kEachEpoch)
  PLACE(on_validation_batch_end, (const StepOutput&, const Batch&, std::int64_t, std::int64_t), kEachEpoch)
  PLACE(on_test_batch_end, (const StepOutput&, const Batch&, std::int64_t, std::int64_t), kEachEpoch)
  PLACE(on_predict_batch_end, (const Batch&, const Batch&, std::int64_t, std::int64_t), kEachEpoch)
  PLACE(on_save_checkpoint, (Checkpoint&), kEachEpoch)
  void on_exception(const std::exception&) override {
    if (!plan_.second_manner.empty() && plan_.is_own_turn()) levin::test::fail_in(plan_.second_manner);
  }

 private:
  Plan& plan_;
  torch::nn::Linear layer_;
};

#undef PLACE
#undef PLACE_AND_CALL

#define PLACE(name, parameters, frequency) \
  void name parameters override { plan_.at("callback." #name, frequency); }

class FailingCallback : public Callback {
 public:
  explicit FailingCallback(Plan& plan) : plan_(plan) {}
  PLACE(setup, (Trainer&, Module&, Stage), kOnce)
  PLACE(on_fit_start, (Trainer&, Module&), kOnce)
  PLACE(on_sanity_check_start, (Trainer&, Module&), kOnce)
  PLACE(on_sanity_check_end, (Trainer&, Module&), kOnce)
  PLACE(on_train_start, (Trainer&, Module&), kOnce)
  PLACE(on_train_batch_start, (Trainer&, Module&, const Batch&, std::int64_t), kEachEpoch)
  PLACE(on_train_batch_end, (Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t), kEachEpoch)
  PLACE(on_after_backward, (Trainer&, Module&), kEachEpoch)
  PLACE(on_validation_epoch_end, (Trainer&, Module&), kEachEpoch)
  PLACE(on_train_epoch_end, (Trainer&, Module&), kEachEpoch)
  PLACE(on_rank_metrics, (Trainer&, Module&, const MetricRow&, const std::vector<MetricMap>&), kEachEpoch)
  PLACE(on_save_checkpoint, (Trainer&, Module&, Checkpoint&), kEachEpoch)
  PLACE(on_fit_end, (Trainer&, Module&), kOnce)
  PLACE(teardown, (Trainer&, Module&, Stage), kOnce)
  Value state_dict() const override {
    plan_.at("callback.state_dict", kEachEpoch);
    return {};
  }

 private:
  Plan& plan_;
};

#undef PLACE

class FailingLogger : public Logger {
 public:
  explicit FailingLogger(Plan& plan) : plan_(plan) {}
  std::string open(const RunInfo&) override {
    plan_.at("logger.open", kOnce);
    return "";
  }
  void log_metrics(const MetricRow&) override { plan_.at("logger.log_metrics", kEachEpoch); }
  void save() override { plan_.at("logger.save", kEachEpoch); }
  void finalize(const std::string& status) override {
    if (status == "success") plan_.at("logger.finalize", kOnce);
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
    plan_.at("worker.get_batch", kEachEpoch);
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
    plan_.at(place_, kEachEpoch);
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
  void prepare_data() override { plan_.at("data.prepare_data", kOnce); }
  void setup(Stage) override { plan_.at("data.setup", kOnce); }
  LoaderPtr train_dataloader() override {
    plan_.at("data.train_dataloader", kOnce);
    return loader("train_loader.next", 1);
  }
  LoaderList val_dataloaders() override {
    plan_.at("data.val_dataloaders", kOnce);
    return {loader("val_loader.next", 0)};
  }
  LoaderList test_dataloaders() override {
    plan_.at("data.test_dataloaders", kOnce);
    return {loader("test_loader.next", 0)};
  }
  LoaderList predict_dataloaders() override { return {loader("predict_loader.next", 0)}; }
  Value state_dict() const override {
    plan_.at("data.state_dict", kEachEpoch);
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

struct Arguments {
  std::string entry;
  int ranks = 1;
  std::map<std::string, std::string> settings;

  std::string setting(const std::string& name, const std::string& fallback) const {
    const auto found = settings.find(name);
    return found == settings.end() ? fallback : found->second;
  }
};

TrainerOptions options_for(const Arguments& arguments, Plan& plan) {
  TrainerOptions options;
  options.max_epochs = std::stoi(arguments.setting("max_epochs", "2"));
  if (plan.is_own_turn() && !arguments.setting("log_file", "").empty()) options.log_file = arguments.setting("log_file", "");
  options.accelerator = "cpu";
  options.devices = Devices(arguments.ranks);
  Value strategy(Value::Map{});
  strategy["control_group"] = arguments.setting("control_group", "auto");
  options.strategy = Component<Strategy>(Value("ddp"), strategy);
  Value checkpoints(Value::Map{});
  checkpoints["save_on_exception"] = arguments.setting("save_on_exception", "0") == "1";
  checkpoints["save_top_k"] = options.max_epochs == 2 ? -1 : 1;
  // What is written in the background when rank 0's process dies is not there.
  checkpoints["async"] = plan.rank != 0;
  // The loggers' folder on other ranks than 0 is known once the run is set up.
  checkpoints["dirpath"] = (plan.folder / "checkpoints").string();
  options.callbacks = {std::make_shared<FailingCallback>(plan), Component<Callback>(Value("ModelCheckpoint"), checkpoints)};
  options.logger = Loggers{Component<Logger>("CSVLogger"), std::make_shared<FailingLogger>(plan)};
  options.enable_progress_bar = false;
  options.enable_model_summary = false;
  options.log_every_n_steps = 1;
  options.num_sanity_val_steps = 1;
  options.default_root_dir = plan.folder;
  options.stall_report_seconds = std::stod(arguments.setting("stall_report", "60"));
  options.timeout_seconds = std::stod(arguments.setting("timeout", "600"));
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

void run(const Arguments& arguments, Plan& plan) {
  plan.at("main.start", kOnce);
  Trainer trainer(options_for(arguments, plan));
  plan.describe = [&] { return describe_place(plan, trainer); };
  FailingModule module(plan);
  FailingData data(plan);
  plan.trains = arguments.entry == "fit";
  if (arguments.entry == "fit") trainer.fit(module, data);
  if (arguments.entry == "validate") trainer.validate(module, data);
  if (arguments.entry == "test") trainer.test(module, data);
  if (arguments.entry == "predict") trainer.predict(module, data);
  plan.describe = nullptr;
  plan.at("main.end", kOnce);
}

}  // namespace

int main(int argc, char** argv) {
  levin::test::become_copy(argc, argv);
  if (argc < 7) return 64;
  Arguments arguments{argv[1], std::stoi(argv[2]), {}};
  for (int index = 7; index < argc; ++index) {
    const std::string text = argv[index];
    arguments.settings[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  levin::test::run_program([&] {
    Plan plan;
    plan.folder = argv[3];
    std::filesystem::current_path(plan.folder);  // by which tests find the run's processes
    plan.place = argv[4];
    plan.manner = argv[5];
    plan.rank = std::stoi(argv[6]);
    const char* rank = std::getenv("RANK");
    // The launcher itself is no rank.
    plan.own_rank = rank != nullptr ? std::stoi(rank) : -2;
    plan.second_manner = arguments.setting("then", "");
    run(arguments, plan);
  });
}
