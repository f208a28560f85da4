#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/batch.h"
#include "levin/data/pipeline_steps.h"

namespace levin {
namespace {

/// An element of several, made when it is needed. It has the id of the first.
PipelineElement collected(std::vector<PipelineElement> elements,
                          const std::shared_ptr<const pipeline_nodes::Combine>& combine) {
  const std::uint64_t id = elements.front().id();
  return PipelineElement(id, [elements = std::move(elements), combine]() mutable {
    std::vector<PipelineValue> values;
    values.reserve(elements.size());
    for (PipelineElement& element : elements) values.push_back(element.take());
    return (*combine)(std::move(values));
  });
}

class BatchNode final : public StepNode {
 public:
  BatchNode(PipelineNodePtr parent, std::int64_t samples, bool drop_last, pipeline_nodes::Combine combine)
      : StepNode(std::move(parent)),
        samples_(samples),
        drop_last_(drop_last),
        combine_(std::make_shared<const pipeline_nodes::Combine>(std::move(combine))) {
    if (samples < 1) throw MisuseError(format("batch(): a batch has at least 1 sample, not {}", samples));
  }

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return std::make_unique<Reader>(parent().open(epoch), samples_, drop_last_, combine_);
  }
  PipelineFacts facts(const StreamEpoch& epoch) const override {
    PipelineFacts facts = parent().facts(epoch);
    facts.batch_size = samples_;
    facts.samples = facts.size;
    if (facts.samples && drop_last_) *facts.samples -= *facts.samples % samples_;
    if (facts.size) facts.size = (*facts.samples + samples_ - 1) / samples_;
    return facts;
  }

 private:
  class Reader final : public PipelineReader {
   public:
    Reader(std::unique_ptr<PipelineReader> reader, std::int64_t samples, bool drop_last,
           std::shared_ptr<const pipeline_nodes::Combine> combine)
        : reader_(std::move(reader)), samples_(samples), drop_last_(drop_last), combine_(std::move(combine)) {}
    std::optional<PipelineElement> next() override {
      std::vector<PipelineElement> elements;
      elements.reserve(static_cast<std::size_t>(samples_));
      while (std::ssize(elements) < samples_) {
        std::optional<PipelineElement> element = reader_->next();
        if (!element) break;
        elements.push_back(std::move(*element));
      }
      if (elements.empty() || (drop_last_ && std::ssize(elements) < samples_)) return std::nullopt;
      return collected(std::move(elements), combine_);
    }
    std::int64_t skip(std::int64_t elements) override {
      const std::int64_t passed = reader_->skip(elements * samples_);
      return drop_last_ ? passed / samples_ : (passed + samples_ - 1) / samples_;
    }
    std::int64_t skip_samples(std::int64_t samples) override { return reader_->skip(samples); }

   private:
    std::unique_ptr<PipelineReader> reader_;
    std::int64_t samples_;
    bool drop_last_;
    std::shared_ptr<const pipeline_nodes::Combine> combine_;
  };

  std::int64_t samples_;
  bool drop_last_;
  std::shared_ptr<const pipeline_nodes::Combine> combine_;
};

class LengthBatchNode final : public StepNode {
 public:
  LengthBatchNode(PipelineNodePtr parent, pipeline_nodes::LengthBounds bounds, pipeline_nodes::Length length,
                  pipeline_nodes::Combine combine)
      : StepNode(std::move(parent)),
        bounds_(std::move(bounds)),
        length_(std::move(length)),
        combine_(std::make_shared<const pipeline_nodes::Combine>(std::move(combine))) {
    if (bounds_.max_tokens < 0 || bounds_.max_samples < 0 || (bounds_.max_tokens == 0 && bounds_.max_samples == 0)) {
      throw MisuseError("batches by length need max_tokens or max_samples above 0");
    }
    if (!std::ranges::is_sorted(bounds_.boundaries)) throw MisuseError("the boundaries of buckets are in ascending order");
  }

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return std::make_unique<Reader>(parent().open(epoch), bounds_, length_, combine_);
  }
  PipelineFacts facts(const StreamEpoch& epoch) const override { return without_size(parent().facts(epoch)); }

 private:
  class Reader final : public PipelineReader {
   public:
    Reader(std::unique_ptr<PipelineReader> reader, pipeline_nodes::LengthBounds bounds, pipeline_nodes::Length length,
           std::shared_ptr<const pipeline_nodes::Combine> combine)
        : reader_(std::move(reader)),
          bounds_(std::move(bounds)),
          length_(std::move(length)),
          combine_(std::move(combine)),
          buckets_(bounds_.boundaries.size() + 1) {}

    std::optional<PipelineElement> next() override {
      while (std::optional<PipelineElement> element = reader_->next()) {
        const std::int64_t length = length_(element->value().get());
        if (length < 0 || (bounds_.max_tokens > 0 && length > bounds_.max_tokens)) {
          throw MisuseError(format("an element has length {}, and max_tokens is {}", length, bounds_.max_tokens));
        }
        const auto place = std::ranges::lower_bound(bounds_.boundaries, length) - bounds_.boundaries.begin();
        if (std::optional<PipelineElement> full = add(buckets_[static_cast<std::size_t>(place)], std::move(*element), length)) {
          return full;
        }
      }
      for (Bucket& bucket : buckets_) {
        if (!bucket.elements.empty()) return emptied(bucket);
      }
      return std::nullopt;
    }

   private:
    struct Bucket {
      std::vector<PipelineElement> elements;
      std::int64_t longest = 0;
    };

    PipelineElement emptied(Bucket& bucket) const { return collected(std::move(std::exchange(bucket, {}).elements), combine_); }

    /// The batch that is full with the element, or without it.
    std::optional<PipelineElement> add(Bucket& bucket, PipelineElement element, std::int64_t length) const {
      const std::int64_t samples = std::ssize(bucket.elements) + 1;
      const bool has_too_many = bounds_.max_samples > 0 && samples > bounds_.max_samples;
      const bool is_too_long = bounds_.max_tokens > 0 && std::max(bucket.longest, length) > bounds_.max_tokens / samples;
      std::optional<PipelineElement> full;
      if (samples > 1 && (has_too_many || is_too_long)) full = emptied(bucket);
      bucket.elements.push_back(std::move(element));
      bucket.longest = std::max(bucket.longest, length);
      if (!full && bounds_.max_samples > 0 && std::ssize(bucket.elements) == bounds_.max_samples) full = emptied(bucket);
      return full;
    }

    std::unique_ptr<PipelineReader> reader_;
    pipeline_nodes::LengthBounds bounds_;
    pipeline_nodes::Length length_;
    std::shared_ptr<const pipeline_nodes::Combine> combine_;
    std::vector<Bucket> buckets_;
  };

  pipeline_nodes::LengthBounds bounds_;
  pipeline_nodes::Length length_;
  std::shared_ptr<const pipeline_nodes::Combine> combine_;
};

class PackNode final : public StepNode {
 public:
  PackNode(PipelineNodePtr parent, std::int64_t length) : StepNode(std::move(parent)), length_(length) {
    if (length < 1) throw MisuseError(format("pack(): a piece has at least 1 token, not {}", length));
  }

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return std::make_unique<Reader>(parent().open(epoch), length_);
  }
  PipelineFacts facts(const StreamEpoch& epoch) const override { return without_size(parent().facts(epoch)); }

 private:
  class Reader final : public PipelineReader {
   public:
    Reader(std::unique_ptr<PipelineReader> reader, std::int64_t length) : reader_(std::move(reader)), length_(length) {}

    std::optional<PipelineElement> next() override {
      while (tokens_ < length_) {
        std::optional<PipelineElement> element = reader_->next();
        if (!element) return std::nullopt;
        add(*static_cast<const at::Tensor*>(element->value().get()));
      }
      return PipelineElement(pieces_++, std::make_shared<Batch>(next_piece()));
    }

   private:
    /// A rest of a sequence that has not been given out.
    struct Part {
      at::Tensor tokens;
      std::int64_t position;
    };

    void add(const at::Tensor& sequence) {
      if (sequence.dim() != 1) throw MisuseError(format("pack() takes sequences [n], not of {} dimensions", sequence.dim()));
      if (sequence.numel() == 0) return;
      parts_.push_back({sequence, 0});
      tokens_ += sequence.numel();
    }

    Batch next_piece() {
      const at::Tensor documents = at::empty({length_}, at::kLong);
      const at::Tensor positions = at::empty({length_}, at::kLong);
      auto* const document_of = documents.mutable_data_ptr<std::int64_t>();
      auto* const position_of = positions.mutable_data_ptr<std::int64_t>();
      std::vector<at::Tensor> pieces;
      std::int64_t filled = 0;
      std::size_t used = 0;
      for (std::int64_t document = 0; filled < length_; ++document) {
        Part& part = parts_[used];
        const std::int64_t count = std::min(length_ - filled, part.tokens.numel());
        pieces.push_back(part.tokens.narrow(0, 0, count));
        for (std::int64_t token = 0; token < count; ++token) {
          document_of[filled + token] = document;
          position_of[filled + token] = part.position + token;
        }
        filled += count;
        part = {part.tokens.narrow(0, count, part.tokens.numel() - count), part.position + count};
        if (part.tokens.numel() == 0) ++used;
      }
      parts_.erase(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(used));
      tokens_ -= length_;
      return {{"tokens", at::cat(pieces)}, {"document", documents}, {"position", positions}};
    }

    std::unique_ptr<PipelineReader> reader_;
    std::int64_t length_;
    std::vector<Part> parts_;
    std::int64_t tokens_ = 0;  ///< in the parts
    std::uint64_t pieces_ = 0;
  };

  std::int64_t length_;
};

}  // namespace

namespace pipeline_nodes {

PipelineNodePtr batch(PipelineNodePtr parent, std::int64_t samples, bool drop_last, Combine combine) {
  return std::make_shared<BatchNode>(std::move(parent), samples, drop_last, std::move(combine));
}
PipelineNodePtr batch_by_length(PipelineNodePtr parent, LengthBounds bounds, Length length, Combine combine) {
  return std::make_shared<LengthBatchNode>(std::move(parent), std::move(bounds), std::move(length), std::move(combine));
}
PipelineNodePtr pack(PipelineNodePtr parent, std::int64_t length) {
  return std::make_shared<PackNode>(std::move(parent), length);
}

}  // namespace pipeline_nodes
}  // namespace levin
