#include "levin/data/combined_loader.h"

#include <algorithm>
#include <set>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/data/dataset.h"

namespace levin {
namespace {

/// Between the epochs that a loader reads when it restarts: beyond those of any training.
constexpr std::int64_t kEpochsOfPass = 1'000'000;

void add_tensors(std::vector<Batch::Item>& items, const std::string& loader, const Batch& batch) {
  for (std::size_t position = 0; position < batch.size(); ++position) {
    const auto& [name, tensor] = batch.items()[position];
    items.emplace_back(format("{}.{}", loader, name.empty() ? std::to_string(position) : name), tensor);
  }
}

}  // namespace

/// Where a loader is in an epoch of all: in which pass through its own, at which of its samples, and how many batches of this
/// rank are left of the pass.
struct CombinedLoader::Position {
  std::int64_t pass = 0;
  std::int64_t samples = 0;
  std::int64_t left = 0;
};

struct CombinedLoader::Part {
  std::string name;
  LoaderPtr loader;
  std::int64_t pass = 0;
  bool under_way = false;  ///< its epoch is started
  bool ended = false;      ///< it has been through its epoch at least once
};

CombinedLoader::CombinedLoader(std::vector<NamedLoader> loaders, CombineMode mode) : mode_(mode) {
  if (loaders.empty()) throw MisuseError("CombinedLoader: give at least one loader");
  std::set<std::string> names;
  for (auto& [name, loader] : loaders) {
    if (!loader) throw MisuseError(format("CombinedLoader: the loader {} is a null pointer", quoted_text(name)));
    if (name.empty() || !names.insert(name).second) {
      throw MisuseError(format("CombinedLoader: the name {} is {}: batches name their tensors by it", quoted_text(name),
                               name.empty() ? "empty" : "given twice"));
    }
    parts_.push_back({.name = name, .loader = std::move(loader)});
  }
}

CombinedLoader::CombinedLoader(CombinedLoader&& other) noexcept = default;
CombinedLoader::~CombinedLoader() = default;

void CombinedLoader::set_shard(const Shard& shard) {
  world_size_ = shard.world_size;
  for (const Part& part : parts_) part.loader->set_shard(shard);
}

std::optional<std::uint64_t> CombinedLoader::data_fingerprint() const {
  DataFingerprint all;
  for (const Part& part : parts_) {
    const auto fingerprint = part.loader->data_fingerprint();
    if (!fingerprint) return std::nullopt;
    all.add(part.name).add(static_cast<std::int64_t>(*fingerprint));
  }
  return all.value();
}

void CombinedLoader::set_pin_memory(bool pin) {
  for (const Part& part : parts_) part.loader->set_pin_memory(pin);
}

bool CombinedLoader::shuffles() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.loader->shuffles(); });
}

bool CombinedLoader::is_interactive() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.loader->is_interactive(); });
}

std::optional<int> CombinedLoader::num_workers() const {
  int all = 0;
  for (const Part& part : parts_) {
    const auto workers = part.loader->num_workers();
    if (!workers) return std::nullopt;
    all += *workers;
  }
  return all;
}

std::optional<SampleShare> CombinedLoader::sample_share() const {
  SampleShare sum;
  for (const Part& part : parts_) {
    const auto share = part.loader->sample_share();
    if (!share) return std::nullopt;
    sum = {.all = sum.all + share->all,
           .mine = sum.mine + share->mine,
           .evened_out = sum.evened_out + share->evened_out,
           .ranks = share->ranks};
  }
  return sum;
}

std::optional<std::int64_t> CombinedLoader::combine(const std::vector<std::optional<std::int64_t>>& batches) const {
  std::int64_t all = 0;
  std::optional<std::int64_t> fewest;
  for (const auto& of_loader : batches) {
    if (!of_loader) return std::nullopt;
    fewest = std::min(fewest.value_or(*of_loader), *of_loader);
    all = mode_ == CombineMode::kSequential ? all + *of_loader : std::max(all, *of_loader);
  }
  return mode_ == CombineMode::kMinSize ? fewest : all;
}

std::optional<std::int64_t> CombinedLoader::size() const {
  std::vector<std::optional<std::int64_t>> batches;
  for (const Part& part : parts_) batches.push_back(part.loader->size());
  return combine(batches);
}

std::optional<std::int64_t> CombinedLoader::batch_size() const {
  const std::optional<std::int64_t> first = parts_.front().loader->batch_size();
  // Where the first loader may have no batch, the rows of a batch are those of another one.
  const bool has_first = mode_ == CombineMode::kMinSize || mode_ == CombineMode::kMaxSizeCycle;
  const auto agrees = [&](const Part& part) { return part.loader->batch_size() == first; };
  return has_first || std::all_of(parts_.begin(), parts_.end(), agrees) ? first : std::nullopt;
}

bool CombinedLoader::knows_positions() const {
  return batch_size() && std::all_of(parts_.begin(), parts_.end(), [](const Part& part) {
           const BatchLoader& loader = *part.loader;
           return loader.batch_size() && loader.sample_share() && loader.samples_before(0) && loader.batches_from(0);
         });
}

std::optional<std::int64_t> CombinedLoader::samples_before(std::int64_t batches) const {
  if (!knows_positions()) return std::nullopt;
  return first_sample_ + batches * *batch_size() * world_size_;
}

std::vector<CombinedLoader::Position> CombinedLoader::positions(std::int64_t samples) const {
  std::vector<Position> positions;
  // Over all ranks, whose batches are adjacent in each loader's order.
  std::int64_t batches = samples / *batch_size();
  for (const Part& part : parts_) {
    const BatchLoader& loader = *part.loader;
    const std::int64_t of_pass = *loader.batches_from(0) * world_size_;
    const bool again = mode_ == CombineMode::kMaxSizeCycle && of_pass > 0;
    const bool ended = of_pass == 0 || (!again && batches >= of_pass);
    Position position{.pass = again ? batches / of_pass : 0};
    if (!ended) {
      const std::int64_t read = (batches - position.pass * of_pass) * *loader.batch_size();
      position.samples = std::min(read, loader.sample_share()->all);
      position.left = *loader.batches_from(position.samples);
    }
    positions.push_back(position);
    if (mode_ == CombineMode::kSequential) batches = std::max<std::int64_t>(0, batches - of_pass);
  }
  return positions;
}

std::optional<std::int64_t> CombinedLoader::batches_from(std::int64_t samples) const {
  if (!knows_positions()) return std::nullopt;
  std::vector<std::optional<std::int64_t>> batches;
  for (const Position& position : positions(samples)) batches.emplace_back(position.pass > 0 ? 0 : position.left);
  return combine(batches);
}

void CombinedLoader::start_epoch(std::int64_t epoch) {
  start(epoch, std::vector<Position>(parts_.size(), Position{.left = 1}));
  left_ = size();
  first_sample_ = 0;
}

void CombinedLoader::start_epoch_at(std::int64_t epoch, std::int64_t samples) {
  start(epoch, positions(samples));
  left_ = batches_from(samples);
  first_sample_ = samples;
}

void CombinedLoader::start(std::int64_t epoch, const std::vector<Position>& positions) {
  epoch_ = epoch;
  started_ = true;
  bool waits = false;
  for (std::size_t index = 0; index < parts_.size(); ++index) {
    Part& part = parts_[index];
    const Position& at = positions[index];
    part.pass = at.pass;
    part.ended = at.pass > 0 || at.left == 0;
    part.under_way = !waits && (!part.ended || mode_ == CombineMode::kMaxSizeCycle);
    if (part.under_way && at.samples == 0) part.loader->start_epoch(epoch + at.pass * kEpochsOfPass);
    if (part.under_way && at.samples > 0) part.loader->start_epoch_at(epoch + at.pass * kEpochsOfPass, at.samples);
    // Those whose turn comes later are not to read ahead yet.
    waits = waits || (mode_ == CombineMode::kSequential && part.under_way);
  }
}

std::optional<Batch> CombinedLoader::next() {
  if (!started_) throw MisuseError("CombinedLoader::next(): call start_epoch() first");
  if (left_ == 0) return std::nullopt;
  std::optional<Batch> batch = mode_ == CombineMode::kSequential ? next_in_turn() : next_of_each();
  if (!batch) left_ = 0;
  if (left_ && batch) --*left_;
  return batch;
}

std::optional<Batch> CombinedLoader::next_in_turn() {
  for (Part& part : parts_) {
    if (part.ended) continue;
    if (!part.under_way) part.loader->start_epoch(epoch_);
    part.under_way = true;
    if (const std::optional<Batch> batch = part.loader->next()) {
      std::vector<Batch::Item> items;
      add_tensors(items, part.name, *batch);
      return Batch(std::move(items));
    }
    part.ended = true;
  }
  return std::nullopt;
}

std::optional<Batch> CombinedLoader::next_of_each() {
  std::vector<Batch::Item> items;
  const auto has_ended = [](const Part& part) { return part.ended; };
  for (Part& part : parts_) {
    std::optional<Batch> batch;
    if (part.under_way) batch = part.loader->next();
    if (!batch) {
      part.ended = true;
      part.under_way = mode_ == CombineMode::kMaxSizeCycle;
      if (mode_ == CombineMode::kMinSize || std::all_of(parts_.begin(), parts_.end(), has_ended)) return std::nullopt;
      if (part.under_way) {
        part.loader->start_epoch(epoch_ + ++part.pass * kEpochsOfPass);
        batch = part.loader->next();
      }
    }
    if (batch) add_tensors(items, part.name, *batch);
  }
  return Batch(std::move(items));
}

}  // namespace levin
