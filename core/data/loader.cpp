#include "levin/core/data/loader.h"

namespace levin {

BatchLoader::~BatchLoader() = default;
std::optional<std::int64_t> BatchLoader::batch_size() const { return std::nullopt; }
std::optional<std::vector<std::int64_t>> BatchLoader::epoch_samples(std::int64_t) const { return std::nullopt; }
void BatchLoader::set_shard(const Shard&) {}
bool BatchLoader::shuffles() const { return false; }
void BatchLoader::set_pin_memory(bool) {}

}  // namespace levin
