#pragma once

#include <levin/levin.h>

namespace {

struct BlockShuffleOptions {
  std::int64_t block = 256;

  static void declare(levin::OptionList<BlockShuffleOptions>& options) {
    options.add("block", &BlockShuffleOptions::block, "Samples that stay together").min(1);
  }
};

/// Shuffles blocks of neighbouring samples, for data that is slow to read sample by sample.
class BlockShuffle : public levin::Sampler {
 public:
  using Options = BlockShuffleOptions;
  explicit BlockShuffle(BlockShuffleOptions options) : options_(levin::checked("BlockShuffle", options)) {}

  std::vector<std::int64_t> order(const levin::EpochKey& key) const override {
    const std::int64_t blocks = (key.dataset_size + options_.block - 1) / options_.block;
    std::vector<std::int64_t> order;
    for (const std::int64_t block : levin::random_permutation(blocks, key.seed + key.epoch)) {
      const std::int64_t end = std::min(key.dataset_size, (block + 1) * options_.block);
      for (std::int64_t index = block * options_.block; index < end; ++index) order.push_back(index);
    }
    return order;
  }
  bool shuffles() const override { return true; }

 private:
  BlockShuffleOptions options_;
};

LEVIN_REGISTER_SAMPLER(BlockShuffle, "Blocks of neighbouring samples in a new order in each epoch");

}  // namespace
