#pragma once

#include "levin/core/config/options.h"
#include "levin/data/data_loader.h"

namespace levin {

/// What a loader lets the user say of how batches are read ahead.
template <class O>
void declare_workers(OptionList<O>& options) {
  options.add("num_workers", &O::num_workers, "Threads that read ahead; 0: the training thread reads")
      .min(0)
      .instead("with 0 the training thread reads");
  options.add("prefetch_factor", &O::prefetch_factor, "Batches that may lie ready, for each worker").min(1);
  options.add("pin_memory", &O::pin_memory, "Batches in page-locked memory; null: where the run computes on a GPU");
}

/// What a DataLoader, and each data module that has one, lets the user say of how batches are read.
template <class O>
void declare_reading(OptionList<O>& options) {
  declare_workers(options);
  options.add("persistent_workers", &O::persistent_workers, "Workers live on between epochs");
}

/// What a data module lets the user say of its loaders.
template <class O>
void declare_loaders(OptionList<O>& options) {
  options.add("batch_size", &O::batch_size, "Samples in a batch of one rank").min(1);
  options.add("shuffle", &O::shuffle, "Training data in a new order in each epoch");
  options.add("sampler", &O::sampler, "Order of the training samples, instead of shuffle");
  options.add("drop_last", &O::drop_last, "Leave out a last training batch that is not full");
  declare_reading(options);
}

/// The options of such a loader.
template <class O>
DataLoaderOptions reading_options(const O& options) {
  return {.batch_size = options.batch_size,
          .num_workers = options.num_workers,
          .pin_memory = options.pin_memory,
          .prefetch_factor = options.prefetch_factor,
          .persistent_workers = options.persistent_workers};
}

/// Of its training loader.
template <class O>
DataLoaderOptions training_options(const O& options) {
  DataLoaderOptions loader = reading_options(options);
  loader.shuffle = options.shuffle && options.sampler.empty();
  loader.sampler = options.sampler.get();
  loader.drop_last = options.drop_last;
  return loader;
}

}  // namespace levin
