#include "levin/core/run/rank_agreement.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/batch_loader.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/random/seed.h"

namespace levin {

namespace {

/// Ranks: all, with one exchange if the texts are equal. `what`: "options".
void require_same(const RunSetup& setup, Stage stage, const std::string& what, const std::string& mine) {
  const auto difference = RankExchange(setup.strategy->control_group())
                              .first_difference(mine, {"comparing " + what + " for " + std::string(stage_name(stage)),
                                                       "every entry point begins with it"});
  if (!difference) return;
  throw ConfigError(format(
      "Ranks were started with different {}. Rank 0 has `{}`, rank {} has `{}`. Start every rank with the same configuration.",
      what, difference->first, difference->rank, difference->other));
}

/// "ranks 4-7 (host-b)". `place`: "host-b", or "1 host-b".
std::string ranks_of_host(const std::vector<int>& ranks, const std::string& place) {
  return format("{} ({})", detail::rank_list(ranks), place.substr(place.find(' ') + 1));
}

/// One line per setting, with its path as on the command line: "trainer.devices: 2".
void add_settings(std::string& text, const std::string& path, const Value& settings) {
  if (settings.is_map() && !settings.as_map().empty()) {
    for (const auto& [name, value] : settings.as_map()) add_settings(text, format("{}.{}", path, name), value);
  } else if (settings.is_list() && !settings.as_list().empty()) {
    std::size_t index = 0;
    for (const Value& value : settings.as_list()) add_settings(text, format("{}.{}", path, index++), value);
  } else {
    text += format("{}: {}\n", path, to_json(settings));
  }
}

std::string describe_setup(const RunSetup& setup, const RunParts& parts, const RunOptions& run) {
  // Callbacks and loggers may be objects, unknown to the options: their own settings follow.
  TrainerOptions options = setup.options;
  options.callbacks.clear();
  options.logger = Loggers(options.logger.enabled());
  options.profiler = {};
  std::string text;
  add_settings(text, "trainer", write_options(options));
  text += "ckpt_path: " + run.ckpt_path.value_or("") + "\n";
  if (run.init_from) text += "init_from: " + run.init_from->path.string() + "\n";
  for (const auto& callback : parts.callbacks) add_settings(text, callback->class_name(), callback->settings());
  if (setup.profiler != nullptr) {
    const Profiler& profiler = *setup.profiler;
    add_settings(text, "profiler " + class_name_of(typeid(profiler)), profiler.settings());
  }
  for (const auto& logger : setup.loggers) add_settings(text, "logger " + logger->name(), logger->settings());
  add_settings(text, "module", parts.module->hparams());
  if (parts.data != nullptr) add_settings(text, "data", parts.data->hparams());
  return text;
}

std::string describe_optimizers(const RunParts& parts) {
  std::map<const at::TensorImpl*, std::string> names;
  for (const auto& entry : parts.module->named_parameters()) names.emplace(entry.value().unsafeGetTensorImpl(), entry.key());
  std::string text;
  for (std::size_t index = 0; index < parts.optimizers.size(); ++index) {
    text += format("optimizer {}: {}\n", index, optimizer_class_name(*parts.optimizers[index]));
    std::size_t number = 0;
    for (const auto& group : parts.optimizers[index]->param_groups()) {
      text += format("optimizer {}, group {}: {} parameters, lr {}, {}\n", index, number++, group.params().size(),
                     get_lr(group), to_json(option_values(group.options())));
      for (const at::Tensor& parameter : group.params()) {
        const auto name = names.find(parameter.unsafeGetTensorImpl());
        text += format("  {}\n", name == names.end() ? "a parameter outside the module" : name->second);
      }
    }
  }
  return text;
}

/// The facts of a loader that ranks compare; none if they do not share its samples.
struct SharedData {
  std::int64_t samples = -1;  ///< over all ranks; -1: not shared
  std::string fingerprint;    ///< fingerprint of the data; "-": unknown
};

std::string describe(const LoaderList& loaders) {
  std::string text;
  for (const LoaderPtr& loader : loaders) {
    const auto share = loader->sample_share();
    const bool is_shared = share && share->ranks > 1;
    const auto fingerprint = is_shared ? loader->data_fingerprint() : std::nullopt;
    text += format("{} {} ", is_shared ? share->all : -1, fingerprint ? std::to_string(*fingerprint) : "-");
  }
  return text;
}

void compare(const std::string& data, const std::vector<SharedData>& by_rank, const std::vector<std::string>& places) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<int>> of_other_size;
  std::map<std::string, std::vector<int>> of_other_values;
  const auto& [samples, fingerprint] = by_rank.front();
  for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
    const SharedData& own = by_rank[rank];
    const bool knows_samples = samples >= 0 && own.samples >= 0;
    const bool knows_values = fingerprint != "-" && own.fingerprint != "-";
    const int number = static_cast<int>(rank);
    if (knows_samples && own.samples != samples) of_other_size[{places[rank], own.samples}].push_back(number);
    if (knows_values && own.fingerprint != fingerprint) of_other_values[places[rank]].push_back(number);
  }
  const std::string first = ranks_of_host({0}, places.front());
  if (!of_other_size.empty()) {
    const auto text_of = [](const auto& group) {
      return format("{} on {}", group.first.second, ranks_of_host(group.second, group.first.first));
    };
    throw MisuseError(format(
        "Ranks share the {}, but it has {} samples on {} and {}. Give all the same data, or divide it in your own loader.",
        data, samples, first, join(of_other_size, ", ", text_of)));
  }
  if (of_other_values.empty()) return;
  const auto text_of = [](const auto& group) { return ranks_of_host(group.second, group.first); };
  const std::string text = format(
      "Ranks share the {}, but its data on {} differs from that on {}: other values, shapes or types in the same number of "
      "samples. Give all ranks the same data (the same files, random numbers of one seed), or divide it in your own loader.",
      data, join(of_other_values, ", ", text_of), first);
  const auto is_elsewhere = [&](const auto& group) { return group.first != places.front(); };
  if (std::ranges::any_of(of_other_values, is_elsewhere)) throw MisuseError(text);
  rank_warn_once(text);
}

}  // namespace

void check_same_setup(const RunSetup& setup, const RunParts& parts, const RunOptions& run, Stage stage) {
  if (setup.world_size() > 1) require_same(setup, stage, "options", describe_setup(setup, parts, run));
}

std::int64_t agreed_seed(const RunSetup& setup) {
  const auto own = static_cast<std::int64_t>(global_seed().value_or(0));
  return RankExchange(setup.strategy->control_group())
      .broadcast_value(own, {"agreeing on the seed of data", "every entry point begins with it"});
}

void check_same_checkpoint(const RunSetup& setup, const std::filesystem::path& file) {
  if (setup.world_size() == 1) return;
  const MappedFile own(file);
  RankExchange ranks(setup.strategy->control_group());
  const ExchangeSite site("comparing the checkpoint", "all resume from the file that rank 0 has chosen");
  const auto files =
      ranks.gather_if_different(format("{} bytes with checksum {}", own.bytes().size(), checksum_of(own.bytes())), site);
  if (!files) return;
  // Every rank reaches this because all have the same texts.
  const std::vector<std::string> hosts = ranks.gather_text(host_name(), site);
  std::map<std::pair<std::string, std::string>, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    groups[{(*files)[rank], hosts[rank]}].push_back(static_cast<int>(rank));
  }
  const auto text_of = [](const auto& group) {
    return format("{} on {}", group.first.first, ranks_of_host(group.second, group.first.second));
  };
  throw ConfigError(
      format("ckpt_path: '{}' differs between ranks: {}. Ranks would resume from different states. Use a folder that "
             "all hosts share, or copy one file to all of them.",
             file, join(groups, "; ", text_of)));
}

void check_same_accumulation(const std::vector<Votes>& by_rank) {
  const auto is_first = [&](const Votes& votes) {
    return votes.accumulate_grad_batches == by_rank.front().accumulate_grad_batches;
  };
  if (std::ranges::all_of(by_rank, is_first)) return;
  std::map<std::int32_t, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    ranks[by_rank[rank].accumulate_grad_batches].push_back(static_cast<int>(rank));
  }
  const auto text_of = [](const auto& group) { return format("{} on {}", group.first, detail::rank_list(group.second)); };
  throw DesyncError(format(
      "Ranks accumulate the gradients of different numbers of batches per step: {}. Call set_accumulate_grad_batches() with "
      "the same number on all ranks, in a hook that all of them run at the same batch, such as on_train_epoch_start.",
      join(ranks, "; ", text_of)));
}

void check_same_optimizers(const RunSetup& setup, const RunParts& parts) {
  if (setup.world_size() > 1) require_same(setup, Stage::kTrain, "optimizers", describe_optimizers(parts));
}

void check_same_changes_of_optimizers(const RunSetup& setup, const RunParts& parts) {
  if (setup.world_size() == 1) return;
  const auto difference = RankExchange(setup.strategy->control_group())
                              .first_difference(describe_optimizers(parts),
                                                {"comparing changed optimizers", "all have agreed on changed parameters"});
  if (!difference) return;
  throw DesyncError(
      "The optimizers' parameters have changed differently on ranks; all must add the same groups, in one hook of one batch. " +
      difference->str() + ".");
}

std::int64_t batch_fingerprint(const Batch& batch) {
  Fnv1aHash hash;
  for (const auto& [name, tensor] : batch.items()) {
    hash.add(name + '|');
    if (!tensor.defined()) continue;
    // Sparse and nested ones are not contiguous, and different ones may be of one kind.
    if (tensor.layout() != at::kStrided || tensor.is_nested()) return 0;
    hash.add(c10::str(tensor.sizes(), '|', tensor.scalar_type(), '|'));
    const at::Tensor values = tensor.detach().to(at::kCPU).contiguous();
    hash.add({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  const auto fingerprint = static_cast<std::int64_t>(hash.value());
  return fingerprint == 0 ? 1 : fingerprint;
}

std::int64_t first_batch_mark(const Batch& batch, const std::optional<std::vector<std::int64_t>>& samples) {
  const std::int64_t fingerprint = batch_fingerprint(batch);
  if (!samples) return fingerprint == 0 ? 0 : fingerprint | 1;
  Fnv1aHash hash;
  hash.add_number(fingerprint);
  for (const std::int64_t sample : *samples) hash.add_number(sample);
  const auto mark = static_cast<std::int64_t>(hash.value() & ~std::uint64_t{1});
  return mark == 0 ? 2 : mark;
}

void check_different_batches(const std::vector<std::int64_t>& first_batches, std::int64_t epoch) {
  const std::int64_t first = first_batches.front();
  const auto is_first = [first](std::int64_t mark) { return mark == first; };
  if (first == 0 || first_batches.size() == 1 || !std::ranges::all_of(first_batches, is_first)) return;
  const std::size_t ranks = first_batches.size();
  const std::string cure = format(
      "Divide the samples over ranks: with trainer.use_distributed_sampler: true a DataLoader does so; your own loader or "
      "sampler must take one in {} of them, starting at its rank (BatchLoader::set_shard). If this is intended, set "
      "trainer.allow_same_batches: true.",
      ranks);
  if (first % 2 == 0) {
    throw MisuseError(
        format("All {} ranks begin epoch {} with the same training batch: they would train on the same samples, {} times as "
               "slowly as one rank alone. {}",
               ranks, epoch, ranks, cure));
  }
  rank_warn_once(
      format("All {} ranks begin epoch {} with equal training batches. Unless their values are made up, the ranks train on the "
             "same samples, {} times as slowly as one rank alone. {}",
             ranks, epoch, ranks, cure));
}

void check_same_data(ControlGroup& group, int node_rank, const std::string& what, const LoaderList& loaders) {
  if (group.size() == 1) return;
  RankExchange ranks(group);
  const ExchangeSite site("comparing the " + what + " data", "all make their loaders at the same points of a run");
  const auto texts = ranks.gather_if_different(describe(loaders), site);
  if (!texts) return;
  // Every rank reaches this because all have the same texts.
  const std::vector<std::string> places = ranks.gather_text(format("{} {}", node_rank, host_name()), site);
  std::vector<std::vector<SharedData>> by_loader;
  for (std::size_t rank = 0; rank < texts->size(); ++rank) {
    std::istringstream words((*texts)[rank]);
    std::size_t loader = 0;
    for (SharedData data; words >> data.samples >> data.fingerprint; ++loader) {
      if (rank == 0) by_loader.emplace_back();
      if (loader < by_loader.size()) by_loader[loader].push_back(data);
    }
    if (loader == by_loader.size()) continue;
    throw MisuseError(
        format("The {} data has {} loaders on rank 0 and {} on rank {}. Give every rank the same number, if necessary without "
               "batches.",
               what, by_loader.size(), loader, rank));
  }
  for (std::size_t loader = 0; loader < by_loader.size(); ++loader) {
    compare(what + " data" + (by_loader.size() > 1 ? format(", loader {}", loader) : ""), by_loader[loader], places);
  }
}

}  // namespace levin
