#pragma once

#include "distributed/rank_report.h"

namespace levin::test {

/// The scenarios of gather_for_metrics.
void gathers(const Settings& settings);
void gathers_wrongly(const Settings& settings);
void computes_area_under_curve(const Settings& settings);

void logs_objects(const Settings& settings);

/// The run of make_logging_reference.py, whose settings it takes.
void logs_as_the_reference(const Settings& settings);

}  // namespace levin::test
