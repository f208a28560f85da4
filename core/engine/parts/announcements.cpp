#include "levin/core/engine/parts/announcements.h"

#include <unistd.h>

#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"

namespace levin {

namespace {

std::string text_of(const SampleShare& share) {
  std::string text = share.ranks > 1 ? format("{} of ", share.mine) : "";
  text += counted(static_cast<std::size_t>(share.all), "sample");
  if (share.evened_out == 0) return text;
  const char* how = share.evened_out > 0 ? "repeated" : "left out";
  return format("{} ({} {} to even out the ranks)", text, std::abs(share.evened_out), how);
}

std::string batch_share(const LoaderInUse& used) {
  const auto available = used.loader->size();
  std::string text = "an unknown number of batches";
  if (used.batches) {
    const std::int64_t batches = available.value_or(*used.batches);
    const std::string of = !available ? "at most " : *available != *used.batches ? format("{} of ", *used.batches) : "";
    text = format("{}{} {}", of, batches, batches == 1 ? "batch" : "batches");
  }
  const auto size = used.loader->batch_size();
  return size ? format("{} of {}", text, *size) : text;
}

}  // namespace

void announce_checkpoint(Stage stage, const std::filesystem::path& file, const std::string& summary) {
  const char* does = stage == Stage::kTrain ? "fit goes on from" : "uses the weights of";
  const std::string who = stage == Stage::kTrain ? "" : std::string(stage_name(stage)) + " ";
  rank_zero_info(who, does, " ", as_typed(file), summary.empty() ? "" : " (" + summary + ")");
}

void announce_resume(const std::filesystem::path& checkpoint, std::int64_t lost,
                     const std::function<std::string(const std::filesystem::path&)>& command) {
  const std::string file = as_typed(checkpoint);
  const Speaker speaker = Console::instance().rank() == 0 ? Speaker::kRun : Speaker::kRank;
  if (lost > 0) {
    detail::print_parts(
        LogLevel::kInfo, speaker,
        format("{} since the newest checkpoint {} lost; save_on_exception of the callback that saves keeps them.",
               counted(static_cast<std::size_t>(lost), "step"), lost == 1 ? "is" : "are"));
  }
  detail::print_parts(LogLevel::kInfo, speaker,
                      command ? "The run goes on with: " + command(file)
                              : "The run goes on from its newest checkpoint when that is given as ckpt_path: " + file);
}

std::vector<LoaderInUse> evaluation_loaders(Stage stage, const LoaderList& loaders, const std::vector<std::int64_t>& batches) {
  std::vector<LoaderInUse> used;
  for (std::size_t index = 0; index < loaders.size(); ++index) {
    const std::string name = stage == Stage::kValidate ? "validation" : std::string(stage_name(stage));
    used.push_back({loaders.size() == 1 ? name : format("{} {}", name, index), loaders[index].get(),
                    batches[index] < 0 ? std::nullopt : std::optional(batches[index])});
  }
  return used;
}

void announce_rank(const Strategy& strategy, const std::vector<LoaderInUse>& loaders) {
  std::string text =
      format("device {}, process {} on {}", strategy.accelerator().describe(strategy.device()), getpid(), host_name());
  for (const LoaderInUse& used : loaders) {
    const auto samples = used.loader->sample_share();
    text += format("; {}: {}{}", used.name, samples ? text_of(*samples) + ", " : "", batch_share(used));
    // Nobody but a loader of the user's own knows which part of the data it gives to which rank.
    if (strategy.world_size() > 1 && !samples) text += ", as the loader divides them";
  }
  rank_info(text);
}

}  // namespace levin
