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

/// The numbers of a row and its epoch, as one event of the row's step.
Event scalars_event(const MetricRow& row);

/// An item for the plug-in of its kind; a table is a text of Markdown. A file cannot be shown: its event has no summary.
Event item_event(const LoggedItem& item);

/// Makes TensorBoard drop earlier events of this step and later ones: the first event of a resumed run.
Event restart_event(std::int64_t step);

// For the hparams plug-in: the hyper-parameters of a run, each by its path ("model.lr"), at the start; at the end their names
// and those of the metrics to compare runs by, and the status.
Event hparams_event(const Value& hyperparams);
Event experiment_event(const Value& hyperparams, const std::set<std::string>& metrics);
Event end_event(std::string_view status);

/// A table in Markdown. Characters that end a cell or a line are escaped.
std::string markdown_of(const Table& table);

}  // namespace levin::tensorboard
