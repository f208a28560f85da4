#include "levin/data/pipeline_node.h"

#include <exception>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/data/distributed_sampler.h"

namespace levin {

const PipelineValue& PipelineElement::value() {
  if (!value_) value_ = take();
  return value_;
}

PipelineValue PipelineElement::take() {
  if (place_.file == nullptr) return take_unplaced();
  try {
    return take_unplaced();
  } catch (const std::exception& error) {
    const std::string place =
        place_.line > 0 ? format("'{}', line {}", *place_.file, place_.line) : format("'{}'", *place_.file);
    std::throw_with_nested(Error(format("{}: {}", place, error_text(error)), exit_code_of(error)));
  }
}

PipelineValue PipelineElement::take_unplaced() {
  if (value_) return std::move(value_);
  return maker_();
}

PipelineElement PipelineElement::renamed(std::uint64_t id) && {
  id_ = id;
  return std::move(*this);
}

std::uint64_t derived_id(std::uint64_t id, std::uint64_t number) { return number == 0 ? id : scramble(scramble(id) + number); }

std::uint64_t rank_seed(const StreamEpoch& epoch) { return sample_seed(epoch.seed, epoch.epoch, epoch.rank); }

PipelineReader::~PipelineReader() = default;
PipelineNode::~PipelineNode() = default;

std::int64_t PipelineReader::skip(std::int64_t elements) {
  for (std::int64_t passed = 0; passed < elements; ++passed) {
    if (!next()) return passed;
  }
  return elements;
}

std::int64_t PipelineReader::skip_samples(std::int64_t /*samples*/) {
  throw MisuseError("the elements of this pipeline are no batches of a fixed number of samples");
}

}  // namespace levin
