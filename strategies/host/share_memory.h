#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/host/run_segment.h"
#include "levin/strategies/host/shared_file.h"

namespace levin {

/// Memory of ranks of one host, or, for each of several hosts, of those on it: rank `maker` of the group makes it, and those
/// that name the same maker open what it has. Nothing on every rank when one of them fails, and `failure` then says which, and
/// why. Ranks: all. Throws as ControlGroup::all_gather() does.
std::optional<SharedFile> share_memory(ControlGroup& group, int maker, std::size_t bytes, std::string& failure);

/// The same for a segment of `ranks` ranks from rank `maker` on, which this process joins. `launched`: what this host's
/// launcher has made already; may be null, on some ranks too. Null on every rank when one of them fails.
std::shared_ptr<RunSegment> share_segment(ControlGroup& group, int maker, int ranks, std::shared_ptr<RunSegment> launched,
                                          std::string& failure);

}  // namespace levin
