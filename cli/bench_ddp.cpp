#include <algorithm>
#include <iostream>
#include <memory>

#include "levin/cli/bench.h"
#include "levin/cli/run.h"
#include "levin/cli/step_timer.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/data_module.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/random/seed.h"
#include "levin/core/trainer.h"
#include "levin/strategies/gradients/ddp.h"
#include "levin/strategies/world/collective_bench.h"

namespace levin::cli {
namespace {

constexpr std::int64_t kWarmUp = 3;
constexpr double kBytesOfMb = 1024.0 * 1024.0;

/// All gradients, in buckets, one after another.
double reduction_time(const Strategy& strategy, std::int64_t bytes, double bucket_cap_mb) {
  const auto bucket = static_cast<std::int64_t>(bucket_cap_mb * kBytesOfMb);
  const CollectiveBench bench(strategy.accelerator(), strategy.device());
  const std::int64_t full_buckets = bytes / bucket;
  double seconds = 0;
  if (full_buckets > 0) {
    seconds = static_cast<double>(full_buckets) * bench.measure(Collective::kAllReduce, bucket).seconds;
  }
  if (bytes % bucket != 0) seconds += bench.measure(Collective::kAllReduce, bytes % bucket).seconds;
  return seconds;
}

/// Fits of a configuration for a few steps, which leave nothing behind.
class StepBench {
 public:
  StepBench(const RunConfig& config, std::int64_t steps)
      : config_(config), steps_(steps), module_(config.model.get()), data_(config.data.get()) {
    const Value& name = config.trainer.strategy.class_path();
    if (name.is_string() && (name.as_string() == "auto" || name.as_string() == "ddp")) return;
    throw ConfigError("bench ddp: measures the strategy ddp; set trainer.strategy to it, or leave it out");
  }

  double present_bucket() const {
    const Value* given = config_.trainer.strategy.init_args().find("bucket_cap_mb");
    return given != nullptr ? given->as_double() : DdpOptions().bucket_cap_mb;
  }

  /// What a step takes, by rank; `reduces` false: ranks work by themselves, and gradients stay theirs.
  std::vector<StepTimes> run(double bucket_cap_mb, bool reduces) {
    const auto timer = std::make_shared<StepTimer>(kWarmUp);
    TrainerOptions options = quiet(config_.trainer);
    Value strategy = config_.trainer.strategy.init_args();
    strategy["bucket_cap_mb"] = bucket_cap_mb;
    options.strategy = Component<Strategy>(Value("ddp"), strategy);
    // Gradients are reduced with the last batch of a window, which here is the last of all.
    options.accumulate_grad_batches = reduces ? 1 : steps_ + kWarmUp + 1;
    options.callbacks = {std::static_pointer_cast<Callback>(timer)};
    Trainer trainer(options);
    if (trainer.world_size() == 1) {
      throw ConfigError("bench ddp: one rank has nobody to wait for: give --trainer.devices=2 or more");
    }
    override_optimizers(trainer, config_);
    data_ ? trainer.fit(*module_, *data_) : trainer.fit(*module_);
    if (timer->steps().empty()) {
      throw ConfigError(
          format("bench ddp: an epoch has no more than {} batches, which are not measured: give it more data, or a "
                 "smaller batch_size",
                 kWarmUp));
    }
    description_ = trainer.strategy().description();
    rank_ = trainer.rank();
    if (reduces && reduction_ == 0) reduction_ = reduction_time(trainer.strategy(), gradient_bytes(), present_bucket());
    return RankExchange(trainer.strategy().control_group())
        .gather_values(typical(timer->steps()), {"gathering times", "all measure the same steps"});
  }

  std::int64_t gradient_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& [name, parameter] : distinct_parameters(*module_)) {
      if (parameter.requires_grad()) bytes += static_cast<std::int64_t>(parameter.nbytes());
    }
    return bytes;
  }

  // Known after a run.
  bool is_first_rank() const { return rank_ == 0; }
  const std::string& description() const { return description_; }
  /// Of all gradients by itself, seconds, in buckets as they are now.
  double reduction() const { return reduction_; }

 private:
  TrainerOptions quiet(TrainerOptions options) const {
    options.max_epochs = 1;
    options.max_steps = -1;
    options.limit_train_batches = Limit(steps_ + kWarmUp);
    options.limit_val_batches = Limit(0);
    options.logger = false;
    options.enable_checkpointing = options.enable_progress_bar = options.enable_model_summary = false;
    options.log_level = LogLevel::kWarning;
    return options;
  }

  const RunConfig& config_;
  std::int64_t steps_;
  std::shared_ptr<Module> module_;
  std::shared_ptr<DataModule> data_;
  int rank_ = 0;
  std::string description_;
  double reduction_ = 0;
};

double slowest_step(const std::vector<StepTimes>& ranks) {
  double slowest = 0;
  for (const StepTimes& times : ranks) slowest = std::max(slowest, times.step());
  return slowest;
}

}  // namespace

void write_bench_file(const std::string& file, const std::string& text) {
  AtomicFile written(file);
  written.write(text);
  written.commit();
}

void bench_ddp(const CommandLine& line, const RunConfig& config) {
  if (config.seed_everything.value) seed_everything(static_cast<std::uint64_t>(*config.seed_everything.value));
  StepBench bench(config, line.bench.steps);
  const double present = bench.present_bucket();
  const std::vector<StepTimes> alone = bench.run(present, /*reduces=*/false);
  std::vector<StepTimes> together;
  std::vector<BucketTime> buckets;
  for (const double size : bucket_sizes(bench.gradient_bytes(), present)) {
    const std::vector<StepTimes> times = bench.run(size, /*reduces=*/true);
    buckets.push_back({size, slowest_step(times)});
    if (size == present) together = times;
  }
  if (!bench.is_first_rank()) return;
  std::vector<RankTimes> ranks;
  for (std::size_t rank = 0; rank < alone.size(); ++rank) ranks.push_back({alone[rank], together[rank], bench.reduction()});
  std::cout << format(
                   "{} ranks, {}; {:.2f} MB of gradients, whose reduction by itself takes {:.2f} ms.\n\n{}\n\n{}\n\n{}\n\n{}\n",
                   ranks.size(), bench.description(), static_cast<double>(bench.gradient_bytes()) / kBytesOfMb,
                   bench.reduction() * 1e3, rank_table(ranks), slowest_rank(ranks), bucket_table(buckets),
                   bucket_proposal(buckets, present))
            << std::flush;
  if (!line.bench.csv.empty()) write_bench_file(line.bench.csv, rank_csv(ranks));
}

}  // namespace levin::cli
