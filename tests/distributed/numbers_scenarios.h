#pragma once

#include "distributed/dataset_loader.h"
#include "distributed/numbers_keys.h"
#include "distributed/rank_report.h"

namespace levin::test {

/// The first `count` samples.
inline std::shared_ptr<DataLoader> samples_loader(int count, int batch_size) {
  std::vector<double> values;
  for (int index = 0; index < count; ++index) values.push_back(sample(index));
  return dataset_loader(torch::tensor(values, torch::kDouble), {.batch_size = batch_size});
}

/// The scenarios of gather_for_metrics.
void gathers(const Settings& settings);
void gathers_wrongly(const Settings& settings);
void computes_area_under_curve(const Settings& settings);

void logs_objects(const Settings& settings);

/// The run of make_logging_reference.py, whose settings it takes.
void logs_as_the_reference(const Settings& settings);

}  // namespace levin::test
