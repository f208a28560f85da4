#include "levin/core/data/loader.h"

#include "levin/core/error.h"

namespace levin {

BatchLoader::~BatchLoader() = default;
std::optional<std::int64_t> BatchLoader::batch_size() const { return std::nullopt; }
std::optional<std::vector<std::int64_t>> BatchLoader::epoch_samples(std::int64_t) const { return std::nullopt; }
std::optional<std::int64_t> BatchLoader::samples_before(std::int64_t) const { return std::nullopt; }
std::optional<std::int64_t> BatchLoader::batches_from(std::int64_t) const { return std::nullopt; }
void BatchLoader::start_epoch_at(std::int64_t, std::int64_t) {
  throw MisuseError("this loader cannot begin inside an epoch: override start_epoch_at() with batches_from()");
}
void BatchLoader::set_shard(const Shard&) {}
bool BatchLoader::shuffles() const { return false; }
void BatchLoader::set_pin_memory(bool) {}

}  // namespace levin
