#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace levin::test::queued {

/// Collectives like NCCL's: a call returns at once, and its work is done in the queue of a separate stream, for whose end the
/// current stream waits. A lost rank leaves the others' devices waiting for ever.
c10::intrusive_ptr<c10d::Backend> make_queued_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size);

}  // namespace levin::test::queued
