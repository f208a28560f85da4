#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace levin::test::queued {

/// Collectives as NCCL's: a call comes back at once, and what it asks for is done in the queue of a stream of its own, whose
/// end the current stream waits for. A rank that is gone leaves the others' devices waiting for ever.
c10::intrusive_ptr<c10d::Backend> make_queued_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size);

}  // namespace levin::test::queued
