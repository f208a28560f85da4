#include "levin/core/run/data_agreement.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/batch_loader.h"
#include "levin/core/error.h"
#include "levin/core/protocol/rank_exchange.h"

namespace levin {
namespace {

constexpr std::int64_t kNotShared = -1;

// A number for each loader, as a text: its samples, over all ranks.
std::string describe(const LoaderList& loaders) {
  std::string text;
  for (const LoaderPtr& loader : loaders) {
    const auto share = loader->sample_share();
    text += format("{} ", share && share->ranks > 1 ? share->all : kNotShared);
  }
  return text;
}

std::vector<std::int64_t> read(const std::string& text) {
  std::istringstream numbers(text);
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 0; numbers >> size;) sizes.push_back(size);
  return sizes;
}

void compare(const std::string& what, const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& other,
             std::size_t rank) {
  if (first.size() != other.size()) {
    throw MisuseError(
        format("The {} data has {} loaders on rank 0 and {} on rank {}. Give every rank as many; one without data has none of "
               "its batches.",
               what, first.size(), other.size(), rank));
  }
  for (std::size_t index = 0; index < first.size(); ++index) {
    if (first[index] == other[index] || first[index] == kNotShared || other[index] == kNotShared) continue;
    const std::string which = first.size() > 1 ? format(", loader {}", index) : "";
    throw MisuseError(
        format("Ranks share the {} data{}, but it has {} samples on rank 0 and {} on rank {}. Give all ranks the same data, or "
               "divide it in a loader of your own.",
               what, which, first[index], other[index], rank));
  }
}

/// FNV-1a, which is the same on every host.
class Hash {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace

std::int64_t batch_fingerprint(const Batch& batch) {
  Hash hash;
  for (const auto& [name, tensor] : batch.items()) {
    std::ostringstream kind;
    kind << name << '|';
    if (tensor.defined()) kind << tensor.sizes() << '|' << tensor.scalar_type() << '|';
    hash.add(kind.str());
    if (!tensor.defined() || tensor.is_sparse()) continue;
    const at::Tensor values = tensor.detach().to(at::kCPU).contiguous();
    hash.add({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  const auto fingerprint = static_cast<std::int64_t>(hash.value());
  return fingerprint == 0 ? 1 : fingerprint;
}

void check_different_batches(const std::vector<std::int64_t>& first_batches, std::int64_t epoch) {
  const std::int64_t first = first_batches.front();
  const auto is_first = [first](std::int64_t fingerprint) { return fingerprint == first; };
  if (first == 0 || first_batches.size() == 1 || !std::all_of(first_batches.begin(), first_batches.end(), is_first)) return;
  throw MisuseError(format(
      "All {} ranks begin epoch {} with the same training batch: they would train on the same samples, {} times as slowly "
      "as one rank alone. Divide the samples over ranks: with trainer.use_distributed_sampler: true a DataLoader does so by "
      "itself; a loader or a sampler of your own takes every {}th from its rank on (BatchLoader::set_shard). If it is "
      "meant, set trainer.allow_same_batches: true.",
      first_batches.size(), epoch, first_batches.size(), first_batches.size()));
}

void check_same_data(ControlGroup& group, const std::string& what, const LoaderList& loaders) {
  if (group.size() == 1) return;
  const std::string mine = describe(loaders);
  const auto texts = RankExchange(group).gather_if_different(
      mine, {"comparing the sizes of the " + what + " data", "all ask for their loaders at the same places of a run"});
  for (std::size_t rank = 1; texts && rank < texts->size(); ++rank) {
    compare(what, read(texts->front()), read((*texts)[rank]), rank);
  }
}

}  // namespace levin
