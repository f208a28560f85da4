#include "levin/core/protocol/metric_state.h"

namespace levin {

MetricStateReader::~MetricStateReader() = default;
MetricObject::~MetricObject() = default;

}  // namespace levin
