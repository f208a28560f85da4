#include "levin/core/data/loader.h"

namespace levin {

BatchLoader::~BatchLoader() = default;
void BatchLoader::set_shard(const Shard&) {}
bool BatchLoader::shuffles() const { return false; }
void BatchLoader::set_pin_memory(bool) {}

}  // namespace levin
