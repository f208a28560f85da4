// Ranks with different amounts of data.
#include <algorithm>
#include <numeric>

#include "distributed/dataset_loader.h"
#include "distributed/matrix/scenario.h"
#include "distributed/one_weight.h"
#include "levin/callbacks/early_stopping.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/random/seed.h"
#include "support/mean_gradients.h"

namespace levin::test {
namespace {

/// The result of one process: in each window the mean over every batch of every rank. Rank r's batches hold the numbers
/// 10 r, 10 r + 1, …
struct OneProcess {
  OneProcess(const std::vector<int>& batches, int accumulate) {
    const int most = *std::max_element(batches.begin(), batches.end());
    double sum = 0;
    int count = 0;
    for (int start = 0; start < most; start += accumulate) {
      double window = 0;
      int in_window = 0;
      for (std::size_t rank = 0; rank < batches.size(); ++rank) {
        for (int index = start; index < std::min(start + accumulate, batches[rank]); ++index) {
          window += 10.0 * static_cast<double>(rank) + index;
          ++in_window;
        }
      }
      weight -= window / in_window;
      sum += window;
      count += in_window;
      ++steps;
    }
    mean = sum / count;
  }
  double weight = 0;
  double mean = 0;
  int steps = 0;
};

/// "10,9,1,0" as numbers.
std::vector<int> counts_of(const std::string& text) {
  std::vector<int> counts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) counts.push_back(std::stoi(part));
  return counts;
}

/// parameters: batches of each rank, "known" or "unknown", accumulate_grad_batches. In training and in validation.
void uneven_batches(Scenario& scenario) {
  const std::vector<int> counts = counts_of(scenario.text(0));
  const bool known = scenario.text(1) == "known";
  TrainerOptions options = scenario.options();
  options.max_epochs = 2;
  options.accumulate_grad_batches = scenario.number(2);
  Trainer trainer(options);
  OneWeight module;
  const int rank = trainer.rank();
  const int own = counts[static_cast<std::size_t>(rank)];
  trainer.fit(module, numbers(own, 10.0 * rank, known), {numbers(own, 10.0 * rank, known)});
  const OneProcess expected(counts, scenario.number(2));
  scenario.expect("weight", module.weight(), 2 * expected.weight);
  scenario.expect("global_step", trainer.global_step(), 2 * expected.steps);
  scenario.expect("training steps of this rank", module.steps, 2 * own);
  scenario.expect_metric(trainer, "input_epoch", expected.mean);
  scenario.expect_metric(trainer, "val_input", expected.mean);
}

/// parameters: batches of each rank, "known" or "unknown", of the validation alone; training has two on each rank.
void uneven_validation(Scenario& scenario) {
  const std::vector<int> counts = counts_of(scenario.text(0));
  const bool known = scenario.text(1) == "known";
  TrainerOptions options = scenario.options();
  options.num_sanity_val_steps = 2;
  Trainer trainer(options);
  OneWeight module;
  const int rank = trainer.rank();
  const int own = counts[static_cast<std::size_t>(rank)];
  int ends = 0;
  module.at_validation_end = [&](OneWeight&) { ++ends; };
  trainer.fit(module, numbers(2, 1), {numbers(own, 10.0 * rank, known)});
  double sum = 0;
  int count = 0;
  for (std::size_t other = 0; other < counts.size(); ++other) {
    for (int index = 0; index < counts[other]; ++index) sum += 10.0 * static_cast<double>(other) + index;
    count += counts[other];
  }
  scenario.expect("on_validation_epoch_end calls, the sanity check's included", ends, 2);
  scenario.expect_metric(trainer, "val_input", sum / count);
}

/// parameters: batches of each rank in validation, "known" or "unknown". Monitors and a ModelCheckpoint decide where ranks
/// meet, whatever the number of batches of a rank.
void monitored_uneven_validation(Scenario& scenario) {
  const std::vector<int> counts = counts_of(scenario.text(0));
  TrainerOptions options = scenario.options();
  options.enable_checkpointing = std::nullopt;
  options.max_epochs = 2;
  options.val_check_interval = 2;
  EarlyStoppingOptions stopping;
  stopping.monitor = "val_input";
  stopping.patience = 3;
  stopping.strict = std::accumulate(counts.begin(), counts.end(), 0) > 0;
  options.callbacks = {std::make_shared<EarlyStopping>(stopping)};
  Trainer trainer(options);
  OneWeight module;
  const auto own = static_cast<std::size_t>(trainer.rank());
  trainer.fit(module, numbers(6, 1), {numbers(counts[own], 1, scenario.text(1) == "known")});
  // The first value is the best, and the third that is no better is seen at the second epoch's first validation.
  scenario.expect("global_step", trainer.global_step(), stopping.strict ? 8 : 12);
  scenario.expect("validates", trainer.validates(), stopping.strict || scenario.text(1) != "known");
}

/// parameters: "known" or "unknown"; "2" or "00:00:00:00". val_check_interval counts batches or goes by time, and ranks have
/// different numbers of batches: all ranks validate at the same steps.
void validation_inside_epoch(Scenario& scenario) {
  const bool known = scenario.text(0) == "known";
  TrainerOptions options = scenario.options();
  const bool by_time = scenario.text(1) != "2";
  if (by_time) {
    options.val_check_interval = levin::OptionType<levin::Duration>::read(scenario.text(1));
  } else {
    options.val_check_interval = 2;
  }
  Trainer trainer(options);
  OneWeight module;
  const int rank = trainer.rank();
  std::string validated_at;
  module.at_validation_end = [&](OneWeight& self) { validated_at += std::to_string(self.global_step()) + " "; };
  // Rank 0 has 7 batches, each further rank one less.
  trainer.fit(module, numbers(7 - rank, rank, known), {numbers(1, rank)});
  scenario.expect("validated at steps", validated_at, std::string(by_time ? "1 2 3 4 5 6 7 " : "2 4 6 "));
  scenario.expect("global_step", trainer.global_step(), 7);
}

/// parameters: "known" or "unknown"; batches of each rank. With manual optimization, an epoch ends with the first rank
/// that has no more batches.
void manual_optimization(Scenario& scenario) {
  struct ByHand : OneWeight {
    ByHand() { set_automatic_optimization(false); }
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      const StepOutput output = OneWeight::training_step(batch, batch_idx);
      zero_grad(optimizer());
      manual_backward(output.loss);
      step_optimizer();
      return output;
    }
    static void zero_grad(torch::optim::Optimizer& optimizer) { levin::zero_grad(optimizer); }
  } module;
  const std::vector<int> counts = counts_of(scenario.text(1));
  const int fewest = *std::min_element(counts.begin(), counts.end());
  TrainerOptions options = scenario.options();
  options.max_epochs = 2;
  Trainer trainer(options);
  const int rank = trainer.rank();
  trainer.fit(module, numbers(counts[static_cast<std::size_t>(rank)], 10.0 * rank, scenario.text(0) == "known"));
  double weight = 0;
  for (int step = 0; step < fewest; ++step) weight -= step + 10.0 * (scenario.ranks() - 1) / 2.0;
  scenario.expect("weight", module.weight(), 2 * weight);
  scenario.expect("global_step", trainer.global_step(), 2 * fewest);
}

/// parameters: "known" or "unknown"; the rank that skips the rest of the first epoch, in the training_step of this batch;
/// "manual" or "automatic". The epochs that follow are whole.
void skip_in_training_step(Scenario& scenario) {
  struct Skips : OneWeight {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      const StepOutput output = OneWeight::training_step(batch, batch_idx);
      if (automatic_optimization()) return output;
      levin::zero_grad(optimizer());
      manual_backward(output.loss);
      step_optimizer();
      return output;
    }
  } module;
  const int who = scenario.number(1);
  const int when = scenario.number(2);
  module.set_automatic_optimization(scenario.text(3) == "automatic");
  TrainerOptions options = scenario.options();
  options.max_epochs = 3;
  Trainer trainer(options);
  module.on_step = [&](OneWeight&, std::int64_t batch_idx) {
    if (trainer.rank() == who && trainer.current_epoch() == 0 && batch_idx == when) trainer.skip_epoch();
  };
  std::string validated;
  module.at_validation_end = [&](OneWeight& self) { validated += std::to_string(self.current_epoch()); };
  const bool known = scenario.text(0) == "known";
  trainer.fit(module, numbers(4, 1, known), {numbers(1, 1, known)});
  scenario.expect("global_step", trainer.global_step(), when + 1 + 4 + 4);
  scenario.expect("epochs with validation", validated, std::string("12"));
  scenario.expect("epochs", trainer.current_epoch(), 3);
}

/// parameters: samples in all, global batch size, strategy. A DataLoader divides them; the last batch is not full, and some
/// ranks may have none. The weights are those of one process.
void uneven_samples(Scenario& scenario) {
  const int samples = scenario.number(0);
  const int global_batch = scenario.number(1);
  TrainerOptions options = scenario.options(scenario.text(2));
  options.use_distributed_sampler = true;
  options.uneven = levin::Uneven::kKeep;
  Trainer trainer(options);
  OneWeight module;
  const auto loader = [&] {
    return dataset_loader(torch::arange(samples, torch::kFloat).pow(2).reshape({-1, 1}),
                          {.batch_size = global_batch / scenario.ranks()});
  };
  trainer.fit(module, loader(), {loader()});
  double weight = 0;
  double sum = 0;
  for (int start = 0; start < samples; start += global_batch) {
    const int end = std::min(start + global_batch, samples);
    double batch = 0;
    for (int sample = start; sample < end; ++sample) batch += static_cast<double>(sample) * sample;
    weight -= batch / (end - start);
    sum += batch;
  }
  scenario.expect("weight", module.weight(), weight);
  scenario.expect("global_step", trainer.global_step(), (samples + global_batch - 1) / global_batch);
  scenario.expect_metric(trainer, "input_epoch", sum / samples);
  scenario.expect_metric(trainer, "val_input", sum / samples);
}

/// parameters: the rank whose step returns no loss, at every second batch. It takes part with weight 0.
void step_without_loss(Scenario& scenario) {
  struct Skipping : OneWeight {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      const StepOutput output = OneWeight::training_step(batch, batch_idx);
      return skips && batch_idx % 2 == 1 ? StepOutput() : output;
    }
    bool skips = false;
  } module;
  Trainer trainer(scenario.options());
  const int rank = trainer.rank();
  module.skips = rank == scenario.number(0);
  trainer.fit(module, numbers(4, 10.0 * rank));
  double weight = 0;
  for (int step = 0; step < 4; ++step) {
    double sum = 0;
    int count = 0;
    for (int other = 0; other < scenario.ranks(); ++other) {
      if (other == scenario.number(0) && step % 2 == 1) continue;
      sum += 10.0 * other + step;
      ++count;
    }
    weight -= sum / count;
  }
  scenario.expect("weight", module.weight(), weight);
  scenario.expect("global_step", trainer.global_step(), 4);
}

/// parameters: find_unused_parameters. At one step, rank 1's loss leaves a parameter out. Without the option that is an error
/// that names it; with it, the rank counts with a gradient of zero.
void unused_parameter(Scenario& scenario) {
  struct TwoWeights : Module {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      const bool leaves_out = trainer().rank() == 1 && batch_idx == 1;
      const at::Tensor x = batch[0].mean();
      return leaves_out ? first * x : first * x + second * x;
    }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1.0); }
    at::Tensor first = register_parameter("first", torch::zeros({}));
    at::Tensor second = register_parameter("second", torch::zeros({}));
  } module;
  TrainerOptions options = scenario.options();
  options.strategy = Scenario::strategy(scenario.flag(0));
  Trainer trainer(options);
  trainer.fit(module, numbers(3, 1));
  // Batches hold 1, 2, 3 on every rank.
  const double ranks = scenario.ranks();
  scenario.expect("first", module.first.item<double>(), -6);
  scenario.expect("second", module.second.item<double>(), -(1 + 2 * (ranks - 1) / ranks + 3));
}

/// parameters: none. test(), validate() and predict() with uneven ranks, one of them without any batch.
void uneven_evaluation(Scenario& scenario) {
  struct Evaluating : OneWeight {
    void test_step(const Batch& batch, std::int64_t) override {
      log("test_input", batch[0].mean());
      log("test_most", batch[0].mean(), {.reduce = Reduce::kMax});
      log("test_count", 1, {.reduce = Reduce::kSum});
    }
    Batch predict_step(const Batch& batch, std::int64_t) override { return batch[0] * 2; }
  } module;
  Trainer trainer(scenario.options());
  const int rank = trainer.rank();
  const int last = scenario.ranks() - 1;
  const auto loader = [&] { return numbers(last - rank, 10.0 * rank, /*knows_size=*/false); };
  const auto tested = trainer.test(module, {loader()}, {.verbose = false});
  const auto validated = trainer.validate(module, {loader()}, {.verbose = false});
  double sum = 0, most = 0;
  int count = 0;
  for (int other = 0; other < last; ++other) {
    for (int index = 0; index < last - other; ++index) {
      sum += 10.0 * other + index;
      most = std::max(most, 10.0 * other + index);
      ++count;
    }
  }
  scenario.expect("test_input", tested.at(0).at("test_input"), sum / count);
  scenario.expect("test_most", tested.at(0).at("test_most"), most);
  scenario.expect("test_count", tested.at(0).at("test_count"), count);
  scenario.expect("val_input", validated.at(0).at("val_input"), sum / count);
  const auto predicted = trainer.predict(module, {loader()});
  scenario.expect("predictions of this rank", predicted.at(0).size(), static_cast<std::size_t>(last - rank));
}

/// Ranks have different seeds: samples are divided all the same, each of them once.
void seeded_by_rank(Scenario& scenario) {
  Trainer trainer(scenario.options());
  seed_everything(100 + static_cast<std::uint64_t>(trainer.rank()));
  OneWeight module;
  trainer.fit(module, dataset_loader(torch::arange(40.0).square(), {.batch_size = 5, .shuffle = true}));
  scenario.expect_metric(trainer, "input_epoch", torch::arange(40.0).square().mean().item<double>());
}

}  // namespace

void add_data_scenarios(Scenarios& scenarios) {
  scenarios.insert({{"uneven_batches", uneven_batches},
                    {"uneven_validation", uneven_validation},
                    {"validation_inside_epoch", validation_inside_epoch},
                    {"manual_optimization", manual_optimization},
                    {"monitored_uneven_validation", monitored_uneven_validation},
                    {"skip_in_training_step", skip_in_training_step},
                    {"uneven_samples", uneven_samples},
                    {"step_without_loss", step_without_loss},
                    {"unused_parameter", unused_parameter},
                    {"uneven_evaluation", uneven_evaluation},
                    {"seeded_by_rank", seeded_by_rank}});
}

}  // namespace levin::test
