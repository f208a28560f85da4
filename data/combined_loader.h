#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/data_module.h"

namespace levin {

/// How long an epoch of several loaders is; Lightning's names.
enum class CombineMode : std::uint8_t {
  kMinSize,       ///< a batch of each; ends with the first loader that ends
  kMaxSize,       ///< a batch of each that has one; ends with the last
  kMaxSizeCycle,  ///< a batch of each; those that end restart, until each has ended once
  kSequential     ///< one loader after another
};
template <>
inline constexpr std::array kChoices<CombineMode> = {
    Choice{CombineMode::kMinSize, "min_size"}, Choice{CombineMode::kMaxSize, "max_size"},
    Choice{CombineMode::kMaxSizeCycle, "max_size_cycle"}, Choice{CombineMode::kSequential, "sequential"}};

/// A loader, and what its tensors are called after.
using NamedLoader = std::pair<std::string, LoaderPtr>;

/// Trains on several loaders:
///
///     levin::CombinedLoader({{"labelled", few}, {"unlabelled", many}}, levin::CombineMode::kMaxSizeCycle)
///
/// A batch holds the tensors of all: "labelled.image" is "image" of the first one's, and what has no name there is
/// "labelled.0", by its position. In the modes max_size and sequential a batch lacks those of loaders that have none
/// (Batch::contains). The rows of its first tensor decide how much a batch counts in means.
///
/// Each loader is divided over ranks as usual. A run resumes at the next batch of each without reading those
/// before, where all of them are DataLoaders or provide the same (batch_size(), samples_before(), batches_from(),
/// sample_share()); on other numbers of ranks too, as long as batch sizes keep their proportions and, with max_size_cycle, the
/// ranks divide what a loader goes through again. A loader that restarts within epoch e reads epoch e + 1000000, e +
/// 2000000, …: another order, and other random numbers of its samples.
class LEVIN_API CombinedLoader final : public BatchLoader {
 public:
  /// Throws MisuseError without loaders, for a null pointer, and for names that are empty or occur twice.
  explicit CombinedLoader(std::vector<NamedLoader> loaders, CombineMode mode = CombineMode::kMinSize);
  CombinedLoader(CombinedLoader&& other) noexcept;
  ~CombinedLoader() override;

  std::optional<std::int64_t> size() const override;
  std::optional<std::int64_t> batch_size() const override;
  void start_epoch(std::int64_t epoch) override;
  std::optional<std::int64_t> samples_before(std::int64_t batches) const override;
  std::optional<std::int64_t> batches_from(std::int64_t samples) const override;
  void start_epoch_at(std::int64_t epoch, std::int64_t samples) override;
  std::optional<Batch> next() override;
  void set_shard(const Shard& shard) override;
  std::optional<SampleShare> sample_share() const override;
  /// Of all loaders', where each has one.
  std::optional<std::uint64_t> data_fingerprint() const override;
  bool shuffles() const override;
  std::optional<int> num_workers() const override;
  bool is_interactive() const override;
  void set_pin_memory(bool pin) override;

 private:
  struct Part;
  struct Position;

  bool knows_positions() const;
  /// Where each loader is at a position that samples_before() gave.
  std::vector<Position> positions(std::int64_t samples) const;
  void start(std::int64_t epoch, const std::vector<Position>& positions);
  std::optional<std::int64_t> combine(const std::vector<std::optional<std::int64_t>>& batches) const;
  std::optional<Batch> next_of_each();
  std::optional<Batch> next_in_turn();

  std::vector<Part> parts_;
  CombineMode mode_;
  int world_size_ = 1;
  std::int64_t epoch_ = 0;
  std::int64_t first_sample_ = 0;     ///< the position at which the epoch was started
  std::optional<std::int64_t> left_;  ///< batches of the epoch; unset: until loaders end
  bool started_ = false;
};

}  // namespace levin
