#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "levin/core/config/value.h"
#include "levin/core/logged_item.h"
#include "levin/core/protocol/metrics.h"

namespace levin::tensorboard {

class Event;

/// The numbers of a row and its epoch, one event of the row's step.
Event scalars_event(const MetricRow& row);

/// An item as the plug-in of its kind reads it: a table as a text of Markdown. A file cannot be shown: then there is no
/// summary.
Event item_event(const LoggedItem& item);

/// "From here on, what there was of this step and later ones counts no more": the first event of a run that goes on.
Event restart_event(std::int64_t step);

// What the hparams plug-in reads: the hyper-parameters of a run, each by its path ("model.lr"), at the start; and at its end
// which there were, with the metrics to compare runs by.
Event hparams_event(const Value& hyperparams);
Event experiment_event(const Value& hyperparams, const std::set<std::string>& metrics);
Event end_event(std::string_view status);

/// A table in Markdown. What would end a cell or a line is escaped.
std::string markdown_of(const Table& table);

}  // namespace levin::tensorboard
