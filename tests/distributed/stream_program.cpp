// A user's program that trains on a stream whose source is made for each epoch, on several ranks. Run by stream_ranks_test.
// Arguments: ranks=… folder=… part=whole (saves in its second epoch) or part=resumes.
#include <torch/torch.h>

#include <filesystem>
#include <sstream>

#include "distributed/one_weight.h"
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/random/seed.h"
#include "levin/data/data_loader.h"

namespace levin::test::stream_program {

namespace {

constexpr int kRows = 240;  // of the file that ranks divide
constexpr std::int64_t kSavesAt = 20;

/// The rank's rows of the file, one a batch, each with a little noise, from the first one in each epoch.
LoaderPtr rows(std::vector<std::string>& begun) {
  return stream([&begun](const StreamEpoch& epoch) -> Stream::Function {
    std::ostringstream text;
    text << epoch.epoch << '/' << epoch.rank << '/' << epoch.world_size;
    begun.push_back(text.str());
    return [row = epoch.rank, step = epoch.world_size](Random& rng) mutable -> std::optional<Batch> {
      if (row >= kRows) return std::nullopt;
      const at::Tensor value = torch::full({1}, static_cast<double>(row)) / kRows + 0.25 * torch::rand({1}, rng);
      row += step;
      return Batch{{"x", value}};
    };
  });
}

void run(const Settings& settings) {
  const bool resumes = settings.text("part") == "resumes";
  const std::filesystem::path folder = settings.text("folder");
  seed_everything(3);
  TrainerOptions options = levin::test::rank_options(settings.number("ranks"), folder);
  options.max_epochs = 3;
  options.limit_train_batches = 50;
  options.use_distributed_sampler = true;
  Trainer trainer(options);
  std::vector<std::string> begun;
  std::vector<std::int64_t> by_epoch(3);
  std::ostringstream seen;
  seen.precision(17);
  struct Counts final : levin::test::OneWeight {
    std::function<void(const Batch&, std::int64_t)> on_batch;
    void on_train_batch_start(const Batch& batch, std::int64_t batch_idx) override { on_batch(batch, batch_idx); }
  } module;
  module.on_batch = [&](const Batch& batch, std::int64_t batch_idx) {
    ++by_epoch[static_cast<std::size_t>(trainer.current_epoch())];
    const bool is_behind = trainer.current_epoch() == 2 || (trainer.current_epoch() == 1 && batch_idx > kSavesAt);
    if (is_behind) seen << batch[0].item<double>() << ',';
  };
  module.on_step = [&](levin::test::OneWeight&, std::int64_t batch_idx) {
    if (!resumes && trainer.current_epoch() == 1 && batch_idx == kSavesAt) trainer.save_checkpoint(folder / "middle.ckpt");
  };
  RunOptions run_options;
  if (resumes) run_options.ckpt_path = (folder / "middle.ckpt").string();
  trainer.fit(module, rows(begun), {}, run_options);
  Report report(folder, trainer.rank());
  for (const std::string& epoch : begun) report.add("begun", epoch);
  for (const std::int64_t batches : by_epoch) report.add("batches", batches);
  report.add("seen", seen.str());
  report.add("weight", module.weight());
}

const RankProgram program("stream", run);

}  // namespace

}  // namespace levin::test::stream_program
