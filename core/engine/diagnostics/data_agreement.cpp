#include "levin/core/engine/diagnostics/data_agreement.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/batch_loader.h"
#include "levin/core/console/console.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/control_group.h"

namespace levin {
namespace {

constexpr std::int64_t kNotShared = -1;
constexpr std::string_view kUnknown = "-";

/// What ranks compare of a loader whose samples they share.
struct SharedData {
  std::int64_t samples = kNotShared;  ///< over all ranks
  std::string fingerprint{kUnknown};  ///< of what they are
};

std::string describe(const LoaderList& loaders) {
  std::string text;
  for (const LoaderPtr& loader : loaders) {
    const auto share = loader->sample_share();
    const bool is_shared = share && share->ranks > 1;
    const auto fingerprint = is_shared ? loader->data_fingerprint() : std::nullopt;
    text += format("{} {} ", is_shared ? share->all : kNotShared, fingerprint ? std::to_string(*fingerprint) : kUnknown);
  }
  return text;
}

std::vector<SharedData> read(const std::string& text) {
  std::istringstream words(text);
  std::vector<SharedData> loaders;
  for (SharedData data; words >> data.samples >> data.fingerprint;) loaders.push_back(data);
  return loaders;
}

/// "ranks 4-7 (of host b)".
std::string ranks_of_host(const std::vector<int>& ranks, const std::string& host) {
  return format("{} ({})", detail::rank_list(ranks), host);
}

/// What every rank says of its loaders, where they do not say the same.
class DataComparison {
 public:
  /// `places`: of each rank, "1 host-b".
  DataComparison(std::string what, const std::vector<std::string>& by_rank, const std::vector<std::string>& places)
      : what_(std::move(what)) {
    for (const std::string& text : by_rank) by_rank_.push_back(read(text));
    for (const std::string& place : places) {
      const std::size_t space = place.find(' ');
      nodes_.push_back(place.substr(0, space));
      hosts_.push_back(place.substr(space + 1));
    }
  }

  void check() const {
    const std::size_t loaders = by_rank_.front().size();
    for (std::size_t rank = 1; rank < by_rank_.size(); ++rank) {
      if (by_rank_[rank].size() == loaders) continue;
      throw MisuseError(format(
          "The {} data has {} loaders on rank 0 and {} on rank {}. Give every rank as many; one without data has none of "
          "its batches.",
          what_, loaders, by_rank_[rank].size(), rank));
    }
    for (std::size_t loader = 0; loader < loaders; ++loader) check_samples(loader);
    for (std::size_t loader = 0; loader < loaders; ++loader) check_values(loader);
  }

 private:
  void check_samples(std::size_t loader) const {
    const std::int64_t first = by_rank_.front()[loader].samples;
    std::map<std::pair<std::string, std::int64_t>, std::vector<int>> others;
    for (std::size_t rank = 1; rank < by_rank_.size(); ++rank) {
      const std::int64_t samples = by_rank_[rank][loader].samples;
      if (samples != first && first != kNotShared && samples != kNotShared)
        others[{hosts_[rank], samples}].push_back(static_cast<int>(rank));
    }
    if (others.empty()) return;
    const auto text_of = [](const auto& group) {
      return format("{} on {}", group.first.second, ranks_of_host(group.second, group.first.first));
    };
    throw MisuseError(
        format("Ranks share the {} data{}, but it has {} samples on {} and {}. Give all ranks the same data, or divide it in a "
               "loader of your own.",
               what_, which(loader), first, ranks_of_host({0}, hosts_[0]), join(others, ", ", text_of)));
  }

  void check_values(std::size_t loader) const {
    const std::string& first = by_rank_.front()[loader].fingerprint;
    std::map<std::string, std::vector<int>> others;
    bool is_of_another_host = false;
    for (std::size_t rank = 1; rank < by_rank_.size(); ++rank) {
      const std::string& fingerprint = by_rank_[rank][loader].fingerprint;
      if (fingerprint == first || first == kUnknown || fingerprint == kUnknown) continue;
      others[hosts_[rank]].push_back(static_cast<int>(rank));
      is_of_another_host |= nodes_[rank] != nodes_.front();
    }
    if (others.empty()) return;
    const auto text_of = [](const auto& group) { return ranks_of_host(group.second, group.first); };
    const std::string text = format(
        "Ranks share the {} data{}, but it holds something else on {} than on {}: other values, shapes or types in as "
        "many samples. Give all ranks the same data (the same files, random numbers of one seed), or divide it in a "
        "loader of your own.",
        what_, which(loader), join(others, ", ", text_of), ranks_of_host({0}, hosts_[0]));
    if (is_of_another_host) throw MisuseError(text);
    rank_warn_once(text);
  }

  std::string which(std::size_t loader) const { return by_rank_.front().size() > 1 ? format(", loader {}", loader) : ""; }

  std::string what_;
  std::vector<std::vector<SharedData>> by_rank_;
  std::vector<std::string> nodes_;
  std::vector<std::string> hosts_;
};

}  // namespace

std::int64_t batch_fingerprint(const Batch& batch) {
  Fnv1aHash hash;
  for (const auto& [name, tensor] : batch.items()) {
    std::ostringstream kind;
    kind << name << '|';
    // Sparse and nested ones do not lie in one piece, and different ones may be of one kind.
    if (tensor.defined() && (tensor.layout() != at::kStrided || tensor.is_nested())) return 0;
    if (tensor.defined()) kind << tensor.sizes() << '|' << tensor.scalar_type() << '|';
    hash.add(kind.str());
    if (!tensor.defined()) continue;
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
  if (first == 0 || first_batches.size() == 1 || !std::all_of(first_batches.begin(), first_batches.end(), is_first)) return;
  const std::size_t ranks = first_batches.size();
  const std::string cure = format(
      "Divide the samples over ranks: with trainer.use_distributed_sampler: true a DataLoader does so by itself; a loader or a "
      "sampler of your own takes one in {} of them, from its rank on (BatchLoader::set_shard). If it is meant, set "
      "trainer.allow_same_batches: true.",
      ranks);
  if (first % 2 == 0) {
    throw MisuseError(format(
        "All {} ranks begin epoch {} with the same training batch: they would train on the same samples, {} times as slowly "
        "as one rank alone. {}",
        ranks, epoch, ranks, cure));
  }
  rank_warn_once(format(
      "All {} ranks begin epoch {} with equal training batches. Unless their values are made up, the ranks train on the same "
      "samples, {} times as slowly as one rank alone. {}",
      ranks, epoch, ranks, cure));
}

void check_same_data(ControlGroup& group, int node_rank, const std::string& what, const LoaderList& loaders) {
  if (group.size() == 1) return;
  RankExchange ranks(group);
  const Meeting meeting("comparing the " + what + " data", "all ask for their loaders at the same places of a run");
  const auto texts = ranks.gather_if_different(describe(loaders), meeting);
  if (!texts) return;
  // Every rank reaches this because all have the same texts.
  DataComparison(what, *texts, ranks.gather_text(format("{} {}", node_rank, host_name()), meeting)).check();
}

}  // namespace levin
