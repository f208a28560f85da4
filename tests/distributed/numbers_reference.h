#pragma once

#include "distributed/rank_report.h"

namespace levin::test {

/// The run of make_logging_reference.py, whose settings it takes.
void logs_as_the_reference(const Settings& settings);

}  // namespace levin::test
