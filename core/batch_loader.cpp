#include "levin/core/batch_loader.h"

#include "levin/core/base/error.h"

namespace levin {

BatchLoader::~BatchLoader() = default;
void BatchLoader::start_epoch_at(std::int64_t, std::int64_t) {
  throw MisuseError("this loader cannot begin inside an epoch: override start_epoch_at() with batches_from()");
}

}  // namespace levin
