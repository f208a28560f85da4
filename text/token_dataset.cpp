#include "levin/text/token_dataset.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/batch.h"

namespace levin {
namespace {

TokenRange range_in(const TokenFile& tokens, const std::optional<TokenRange>& given) {
  const TokenRange range = given.value_or(TokenRange{0, tokens.size()});
  if (range.begin < 0 || range.begin > range.end || range.end > tokens.size()) {
    throw MisuseError(format("'{}' has {} tokens, and those from {} to {} are wanted", tokens.path().string(), tokens.size(),
                             range.begin, range.end));
  }
  return range;
}

void check_block_size(std::int64_t block_size) {
  if (block_size < 1) throw MisuseError(format("block_size is 1 or more, not {}", block_size));
}

void check_index(std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size) throw MisuseError(format("there is no sample {} among {}", index, size));
}

/// Of the file's size and some tokens, spread over a part of it.
DataFingerprint fingerprint_of(const TokenFile& tokens, const TokenRange& range) {
  DataFingerprint fingerprint;
  fingerprint.add(tokens.size()).add(range.begin).add(range.end);
  constexpr std::int64_t kMost = 64;
  const std::int64_t step = std::max<std::int64_t>((range.end - range.begin) / kMost, 1);
  for (std::int64_t place = range.begin; place < range.end; place += step) fingerprint.add(tokens[place]);
  return fingerprint;
}

std::span<std::int64_t> row_of(const at::Tensor& tensor, std::size_t row) {
  const auto width = static_cast<std::size_t>(tensor.size(1));
  return {tensor.mutable_data_ptr<std::int64_t>() + row * width, width};
}

/// A number below `end`, uniform, of the bits that a seed is.
std::int64_t number_below(std::int64_t end, std::uint64_t seed) {
  // splitmix64, since seeds of neighbours may be neighbours.
  seed += 0x9e3779b97f4a7c15U;
  seed = (seed ^ seed >> 30U) * 0xbf58476d1ce4e5b9U;
  seed = (seed ^ seed >> 27U) * 0x94d049bb133111ebU;
  seed ^= seed >> 31U;
  return static_cast<std::int64_t>(seed % static_cast<std::uint64_t>(end));
}

}  // namespace

TokenDataset::TokenDataset(TokenFile tokens, const TokenDatasetOptions& options)
    : tokens_(std::move(tokens)), options_(options), range_(range_in(tokens_, options.range)) {
  check_block_size(options_.block_size);
  if (size() < 1) {
    throw MisuseError(format("'{}': {} tokens are too few for a window of block_size {} and its last target",
                             tokens_.path().string(), range_.end - range_.begin, options_.block_size));
  }
}

std::int64_t TokenDataset::size() const {
  return std::max<std::int64_t>(range_.end - range_.begin - 1, 0) / options_.block_size;
}

Batch TokenDataset::get_batch(std::span<const std::int64_t> indices) const {
  const std::int64_t block = options_.block_size;
  const at::Tensor windows = at::empty({std::ssize(indices), block + 1}, at::kLong);
  for (std::size_t row = 0; row < indices.size(); ++row) {
    check_index(indices[row], size());
    std::int64_t begin = indices[row] * block;
    if (options_.windows == TokenWindows::kRandom) {
      begin = number_below(range_.end - range_.begin - block, sample_generator(indices[row]).current_seed());
    }
    tokens_.read(range_.begin + begin, row_of(windows, row));
  }
  return {{"input", windows.slice(1, 0, block).contiguous()}, {"target", windows.slice(1, 1).contiguous()}};
}

std::optional<std::uint64_t> TokenDataset::fingerprint() const {
  return fingerprint_of(tokens_, range_).add(options_.block_size).value();
}

PackedTokenDataset::PackedTokenDataset(TokenFile tokens, const PackedTokenOptions& options)
    : tokens_(std::move(tokens)), block_size_(options.block_size) {
  check_block_size(block_size_);
  pack(parts_of(options));
  if (size() < 1) {
    throw ConfigError(format("'{}' has no document of two tokens or more", tokens_.path().string()));
  }
}

std::vector<PackedTokenDataset::Part> PackedTokenDataset::parts_of(const PackedTokenOptions& options) const {
  const TokenRange range = range_in(tokens_, options.range);
  std::vector<std::int64_t> ends = options.document_ends;
  if (ends.empty()) {
    for (const std::uint64_t end : tokens_.document_ends()) ends.push_back(static_cast<std::int64_t>(end));
  }
  std::vector<Part> parts;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    if (end < begin || end > tokens_.size()) {
      throw MisuseError(format("'{}' has {} tokens, and documents that end at {} and {}", tokens_.path().string(),
                               tokens_.size(), begin, end));
    }
    if (begin >= range.begin && end <= range.end) {
      for (std::int64_t at = begin; at + 1 < end; at += block_size_) parts.push_back({at, std::min(block_size_, end - 1 - at)});
    }
    begin = end;
  }
  return parts;
}

namespace {

/// Finds the first block that has room for a part. Blocks are kept by their room, and a tree over rooms knows the first block
/// of each: so a part costs the logarithm of the block's size, however many blocks there are.
class FirstFit {
 public:
  explicit FirstFit(std::int64_t block_size) {
    while (leaves_ <= static_cast<std::size_t>(block_size)) leaves_ *= 2;
    by_room_.resize(leaves_);
    first_.assign(2 * leaves_, kNone);
    full_room_ = static_cast<std::size_t>(block_size);
  }

  /// The block, which is a new one where none has room.
  std::int64_t place(std::int64_t length) {
    const auto needed = static_cast<std::size_t>(length);
    std::int64_t block = kNone;
    std::size_t room = full_room_;
    // The first block among those with enough room, and its room.
    for (std::size_t low = leaves_ + needed, high = 2 * leaves_; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) consider(low++, block, room);
      if (high % 2 == 1) consider(--high, block, room);
    }
    if (block == kNone) {
      block = blocks_++;
      room = full_room_;
    } else {
      by_room_[room].pop();
      update(room);
    }
    const std::size_t left = room - needed;
    if (left > 0) {
      by_room_[left].push(block);
      update(left);
    }
    return block;
  }
  std::int64_t blocks() const { return blocks_; }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  using Blocks = std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>>;

  void consider(std::size_t node, std::int64_t& block, std::size_t& room) const {
    if (first_[node] >= block) return;
    block = first_[node];
    while (node < leaves_) node = first_[2 * node] == block ? 2 * node : 2 * node + 1;
    room = node - leaves_;
  }

  void update(std::size_t room) {
    std::size_t node = leaves_ + room;
    first_[node] = by_room_[room].empty() ? kNone : by_room_[room].top();
    for (node /= 2; node > 0; node /= 2) first_[node] = std::min(first_[2 * node], first_[2 * node + 1]);
  }

  std::size_t leaves_ = 1;
  std::size_t full_room_ = 0;
  std::vector<Blocks> by_room_;
  std::vector<std::int64_t> first_;
  std::int64_t blocks_ = 0;
};

}  // namespace

void PackedTokenDataset::pack(const std::vector<Part>& parts) {
  FirstFit fit(block_size_);
  std::vector<std::int64_t> blocks;
  blocks.reserve(parts.size());
  for (const Part& part : parts) blocks.push_back(fit.place(part.length));
  first_parts_.assign(static_cast<std::size_t>(fit.blocks()) + 1, 0);
  for (const std::int64_t block : blocks) ++first_parts_[static_cast<std::size_t>(block) + 1];
  for (std::size_t block = 1; block < first_parts_.size(); ++block) first_parts_[block] += first_parts_[block - 1];
  std::vector<std::int64_t> next(first_parts_.begin(), first_parts_.end() - 1);
  parts_.resize(parts.size());
  for (std::size_t index = 0; index < parts.size(); ++index) {
    parts_[static_cast<std::size_t>(next[static_cast<std::size_t>(blocks[index])]++)] = parts[index];
  }
}

Batch PackedTokenDataset::get_batch(std::span<const std::int64_t> indices) const {
  constexpr std::int64_t kIgnored = -100;  // cross_entropy's ignore_index
  const auto filled = [&](std::int64_t value) { return at::full({std::ssize(indices), block_size_}, value, at::kLong); };
  const at::Tensor input = filled(0);
  const at::Tensor target = filled(kIgnored);
  const at::Tensor document = filled(-1);
  const at::Tensor position = filled(0);
  std::vector<std::int64_t> read;
  for (std::size_t row = 0; row < indices.size(); ++row) {
    check_index(indices[row], size());
    const auto block = static_cast<std::size_t>(indices[row]);
    std::size_t at = 0;
    for (std::int64_t index = first_parts_[block]; index < first_parts_[block + 1]; ++index) {
      const Part& part = parts_[static_cast<std::size_t>(index)];
      const auto length = static_cast<std::size_t>(part.length);
      read.resize(length + 1);
      tokens_.read(part.begin, read);
      std::copy_n(read.begin(), length, row_of(input, row).subspan(at).begin());
      std::copy_n(read.begin() + 1, length, row_of(target, row).subspan(at).begin());
      std::ranges::fill(row_of(document, row).subspan(at, length), index - first_parts_[block]);
      for (std::size_t place = 0; place < length; ++place) row_of(position, row)[at + place] = static_cast<std::int64_t>(place);
      at += length;
    }
  }
  return {{"input", input}, {"target", target}, {"document", document}, {"position", position}, {"mask", document.ge(0)}};
}

std::optional<std::uint64_t> PackedTokenDataset::fingerprint() const {
  DataFingerprint fingerprint = fingerprint_of(tokens_, {0, tokens_.size()});
  return fingerprint.add(block_size_).add(size()).add(first_parts_).value();
}

std::vector<std::int64_t> find_document_ends(const TokenFile& tokens, const TokenRange& range, std::int64_t end_token) {
  const auto [begin, end] = range_in(tokens, range);
  std::vector<std::int64_t> ends;
  std::vector<std::int64_t> read;
  constexpr std::int64_t kAtOnce = 1 << 16;
  for (std::int64_t at = begin; at < end; at += kAtOnce) {
    read.resize(static_cast<std::size_t>(std::min(kAtOnce, end - at)));
    tokens.read(at, read);
    for (std::size_t index = 0; index < read.size(); ++index) {
      if (read[index] == end_token) ends.push_back(at + static_cast<std::int64_t>(index) + 1);
    }
  }
  if (end > begin && (ends.empty() || ends.back() < end)) ends.push_back(end);
  return ends;
}

}  // namespace levin
