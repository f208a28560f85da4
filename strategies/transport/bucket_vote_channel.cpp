#include "levin/strategies/transport/bucket_vote_channel.h"

#include <torch/types.h>

#include <array>
#include <cstring>
#include <span>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

void BucketVoteChannel::publish(std::int64_t sequence, const Votes& votes) {
  mine_ = {sequence, pack(votes)};
  const std::lock_guard lock(mutex_);
  all_.clear();
}

std::vector<Votes> BucketVoteChannel::read(std::int64_t sequence) {
  board_->end_reduction();
  const std::lock_guard lock(mutex_);
  if (all_.empty()) {
    throw MisuseError(
        format("votes of gradient reduction {} are read, but no reduction has ended since they were published", sequence));
  }
  return unpack_votes(all_, sequence, board_->rank());
}

at::Tensor BucketVoteChannel::elements(const at::Tensor& bucket) const {
  std::array<std::uint8_t, sizeof(PublishedVotes)> bytes{};
  std::memcpy(bytes.data(), &mine_, bytes.size());
  const auto width = static_cast<std::int64_t>(bytes.size());
  const at::Tensor own = torch::from_blob(bytes.data(), {width}, torch::kUInt8).to(bucket.scalar_type());
  at::Tensor elements = torch::zeros({board_->size() * width}, bucket.options());
  elements.narrow(0, board_->rank() * width, width).copy_(own);
  return elements;
}

void BucketVoteChannel::take(const at::Tensor& sum) {
  const at::Tensor bytes = sum.to(torch::kUInt8).contiguous();
  std::vector<PublishedVotes> all(static_cast<std::size_t>(board_->size()));
  std::memcpy(all.data(), bytes.const_data_ptr(), all.size() * sizeof(PublishedVotes));
  const std::lock_guard lock(mutex_);
  all_ = std::move(all);
}

void BucketVoteChannel::exchange(ControlGroup& group) {
  std::vector<PublishedVotes> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(&mine_, 1)), std::as_writable_bytes(std::span(all)), "a step without gradients");
  const std::lock_guard lock(mutex_);
  all_ = std::move(all);
}

}  // namespace levin
