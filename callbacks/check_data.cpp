#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "levin/callbacks/check_with_options.h"
#include "levin/callbacks/operator_calls.h"
#include "levin/callbacks/severity.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/batch_loader.h"
#include "levin/core/config/registry.h"
#include "levin/core/fit_preview.h"
#include "levin/core/module.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

at::Tensor out_of_range(const at::Tensor& labels, std::int64_t classes, std::int64_t ignored) {
  return labels.lt(0).logical_or(labels.ge(classes)).logical_and(labels.ne(ignored));
}

bool are_equal(const Batch& left, const Batch& right) {
  return std::ranges::equal(left.items(), right.items(), [](const Batch::Item& one, const Batch::Item& other) {
    return one.second.sizes() == other.second.sizes() && at::equal(one.second, other.second);
  });
}

/// A row that was read, and its sample of the dataset: -1 where it is there to make ranks even.
struct SampleRead {
  std::int64_t sample = -1;
  std::int64_t rank = 0;
  std::int64_t batch = 0;
  std::int64_t row = 0;
};

struct CheckDataOptions {
  Severity fail = Severity::kError;
  std::optional<std::int64_t> num_classes = std::nullopt;
  std::string label;
  bool repeats = false;

  static void declare(OptionList<CheckDataOptions>& options) {
    using O = CheckDataOptions;
    options.add(&O::fail, "When data is wrong: warn, or end the run");
    options.add(&O::num_classes, "Labels are below it; null: as many as the module's cross entropy has scores").min(1);
    options.add(&O::label, "The tensor of a batch with labels; empty: the one that the module's cross entropy takes");
    options.add(&O::repeats, "A sample may come several times, as where it is drawn with replacement");
  }
};

/// Reads an epoch of the fit's loaders on every rank, and finds samples that come twice over all ranks, or not at all; values
/// that are NaN or infinite; labels out of range; batches that are empty, or all alike.
class CheckData final : public CheckWithOptions<CheckDataOptions> {
 public:
  explicit CheckData(const Options& options) : CheckWithOptions("CheckData", options) {}

 protected:
  void check(Trainer& trainer, Module&) override {
    FitPreview preview(trainer);
    find_cross_entropy(preview);
    for (const FitLoader& loader : preview.loaders()) {
      if (loader.loader->is_interactive()) {
        add_remark(loader.name + ": not read, since its batches depend on the run");
      } else {
        compare_samples(trainer, loader, read(trainer, preview, loader));
      }
    }
    if (!label_) add_remark("no labels known: set num_classes and label");
  }

 private:
  void find_cross_entropy(FitPreview& preview) {
    entropy_ = {};
    label_.reset();
    if (!preview.has_loss()) return;
    const auto note_cross_entropy = [&](const OperatorCall& call) {
      const auto entropy = cross_entropy_of(call);
      if (!entropy || entropy_.classes != 0) return;
      entropy_ = *entropy;
      entropy_.targets = entropy->targets.to(at::kCPU, at::kLong, /*non_blocking=*/false, /*copy=*/true);
      // So that the step works; and a GPU that meets such a label is lost to the process.
      entropy->targets.masked_fill_(out_of_range(entropy->targets, entropy->classes, entropy->ignored), 0);
    };
    observed_loss(preview, note_cross_entropy);
  }

  bool is_label(const Batch& batch, std::size_t index) {
    const auto& [name, tensor] = batch.items()[index];
    if (!at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) return false;
    const bool is_named = !options_.label.empty() && name == options_.label;
    const bool is_target = options_.label.empty() && !label_ && entropy_.classes != 0 &&
                           tensor.sizes() == entropy_.targets.sizes() &&
                           at::equal(tensor.cpu().to(at::kLong), entropy_.targets);
    if (is_named || is_target) label_ = index;
    return label_ == index && options_.num_classes.value_or(entropy_.classes) > 0;
  }

  std::optional<std::vector<SampleRead>> read(const Trainer& trainer, const FitPreview& preview, const FitLoader& from) {
    BatchLoader& loader = *from.loader;
    std::vector<SampleRead> rows;
    std::optional<Batch> first;
    bool all_alike = true;
    std::int64_t batches = 0;
    loader.start_epoch(trainer.current_epoch());
    for (; (!from.batches || batches < *from.batches) && !preview.interrupted(); ++batches) {
      const std::optional<Batch> batch = loader.next();
      if (!batch) break;
      const std::int64_t size = batch->batch_size();
      if (size == 0) add_finding(format("{}: batch {} is empty", from.name, batches));
      if (first) all_alike = all_alike && are_equal(*batch, *first);
      if (!first) first = batch;
      check_values(from, *batch, batches, std::ssize(rows));
      for (std::int64_t row = 0; row < size; ++row) rows.push_back({-1, trainer.rank(), batches, row});
    }
    if (batches > 1 && all_alike) add_finding(format("{}: all {} batches are alike", from.name, batches));
    const auto samples = loader.epoch_samples(batches);
    if (!samples || samples->size() != rows.size()) return std::nullopt;
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row].sample = (*samples)[row];
    return rows;
  }

  void check_values(const FitLoader& from, const Batch& batch, std::int64_t batch_idx, std::int64_t rows_before) {
    for (std::size_t index = 0; index < batch.size(); ++index) {
      const auto& [name, tensor] = batch.items()[index];
      if (tensor.numel() == 0) continue;
      const std::int64_t classes = options_.num_classes.value_or(entropy_.classes);
      const bool has_labels = is_label(batch, index);
      const at::Tensor wrong = has_labels ? out_of_range(tensor, classes, entropy_.ignored) : tensor.isfinite().logical_not();
      if (!wrong.any().item<bool>()) continue;
      const at::Tensor places = at::atleast_1d(wrong).nonzero().select(1, 0).cpu();
      const auto row = places[0].item<std::int64_t>();
      const auto samples = from.loader->epoch_samples(batch_idx + 1);
      const auto place = static_cast<std::size_t>(rows_before + row);
      const std::string sample = samples && place < samples->size() ? format(", sample {}", (*samples)[place]) : "";
      const std::string what = has_labels
                                   ? format("is {} of {} classes", tensor.masked_select(wrong)[0].item<std::int64_t>(), classes)
                                   : "holds NaN or an infinity";
      add_finding(format("{}: batch {}, row {}{}: {} {}", from.name, batch_idx, row, sample,
                         name.empty() ? format("tensor {}", index) : name, what));
    }
  }

  /// Each sample once, over the ranks that divide them. `mine`: unset when the loader does not say it. Ranks: all.
  void compare_samples(const Trainer& trainer, const FitLoader& from, std::optional<std::vector<SampleRead>> mine) {
    const auto share = from.loader->sample_share();
    // A batch that is not full may be left out.
    if (share && mine && !from.batches && std::abs(share->mine - std::ssize(*mine)) >= from.loader->batch_size().value_or(1))
      add_finding(format("{}: gives {} samples, but says {}", from.name, mine->size(), share->mine));
    if (!mine) add_remark(from.name + ": does not say which samples it gives (BatchLoader::epoch_samples)");
    std::vector<SampleRead> all = mine.value_or(std::vector<SampleRead>());
    RankExchange ranks_exchange(trainer.strategy().control_group());
    const ExchangeSite site("CheckData", "all ranks have this callback, and as many loaders");
    const bool divides = trainer.options().use_distributed_sampler;
    constexpr std::uint64_t kLongest = std::numeric_limits<std::uint32_t>::max();
    if (divides) {
      const std::string bytes(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(SampleRead));
      const std::string of_all = join(ranks_exchange.gather_text_to_rank_zero(bytes, site, kLongest), "");
      all.resize(of_all.size() / sizeof(SampleRead));
      std::memcpy(all.data(), of_all.data(), of_all.size());
    }
    std::erase_if(all, [](const SampleRead& read) { return read.sample < 0; });
    std::ranges::stable_sort(all, {}, &SampleRead::sample);
    const auto place = [&](const SampleRead& read) {
      return format("batch {}, row {}{}", read.batch, read.row,
                    trainer.world_size() > 1 ? format(" of rank {}", read.rank) : "");
    };
    std::vector<std::string> twice;
    for (std::size_t index = 1; index < all.size() && !options_.repeats && twice.size() < kMostFindings; ++index) {
      if (all[index].sample != all[index - 1].sample) continue;
      twice.push_back(format("{}: sample {} comes in {} and in {}", from.name, all[index].sample, place(all[index - 1]),
                             place(all[index])));
    }
    const std::string text = divides ? ranks_exchange.broadcast_text(join(twice, "\n"), site, kLongest) : join(twice, "\n");
    if (!text.empty()) std::ranges::for_each(split(text, "\n"), [&](const std::string& line) { add_finding(line); });
  }

  CrossEntropy entropy_;              ///< of the module's first; no classes: it has none
  std::optional<std::size_t> label_;  ///< which tensor of a batch
};

LEVIN_REGISTER_CALLBACK(CheckData, "Read an epoch before training: samples once, NaN, labels in range");

}  // namespace
}  // namespace levin
