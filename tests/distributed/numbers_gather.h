#pragma once

#include "distributed/rank_report.h"

namespace levin::test {

/// The scenarios of gather_for_metrics.
void gathers(const Settings& settings);
void gathers_wrongly(const Settings& settings);
void computes_area_under_curve(const Settings& settings);

}  // namespace levin::test
