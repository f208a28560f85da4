#include "levin/loggers/tensorboard/summaries.h"

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/value_json.h"
#include "levin/loggers/each_leaf.h"
#include "levin/loggers/tensorboard/event_file.h"
#include "levin/loggers/wall_clock.h"
#include "tensorboard/messages.pb.h"

namespace levin::tensorboard {
namespace {

void set_plugin(Summary::Value& value, const std::string& plugin, const std::string& content = {}) {
  SummaryMetadata::PluginData& data = *value.mutable_metadata()->mutable_plugin_data();
  data.set_plugin_name(plugin);
  data.set_content(content);
}

void set_image(Summary::Value& value, const LoggedImage& image) {
  Summary::Image& shown = *value.mutable_image();
  shown.set_height(static_cast<std::int32_t>(image.height));
  shown.set_width(static_cast<std::int32_t>(image.width));
  shown.set_colorspace(static_cast<std::int32_t>(image.channels));
  shown.set_encoded_image_string(image.png);
}

void set_histogram(Summary::Value& value, const LoggedHistogram& histogram) {
  HistogramProto& shown = *value.mutable_histo();
  shown.set_min(histogram.min);
  shown.set_max(histogram.max);
  shown.set_num(static_cast<double>(histogram.number));
  shown.set_sum(histogram.sum);
  shown.set_sum_squares(histogram.sum_squares);
  for (const double limit : histogram.limits) shown.add_bucket_limit(limit);
  for (const std::int64_t count : histogram.counts) shown.add_bucket(static_cast<double>(count));
}

void set_text(Summary::Value& value, const std::string& text) {
  // As other programs that write for the text plug-in name it.
  value.set_tag(value.tag() + "/text_summary");
  set_plugin(value, "text");
  TensorProto& shown = *value.mutable_tensor();
  shown.set_dtype(TensorProto::DT_STRING);
  shown.mutable_tensor_shape()->add_dim()->set_size(1);
  shown.add_string_val(text);
}

std::string cell_text(const Value& cell) {
  std::string text;
  if (cell.is_string()) {
    for (const char one : cell.as_string()) {
      if (one == '|' || one == '\\') text += '\\';
      text += one == '\n' || one == '\r' ? ' ' : one;
    }
  } else if (cell.is_double()) {
    append_float(text, cell.as_double());
  } else if (!cell.is_null()) {
    text = to_json(cell);
  }
  return text;
}

HParamValue hparam_of(const Value& value) {
  HParamValue hparam;
  if (value.is_bool()) {
    hparam.set_bool_value(value.as_bool());
  } else if (value.is_number()) {
    hparam.set_number_value(value.as_double());
  } else {
    hparam.set_string_value(value.is_string() ? value.as_string() : to_json(value));
  }
  return hparam;
}

HParamInfo::DataType type_of(const Value& value) {
  if (value.is_bool()) return HParamInfo::DATA_TYPE_BOOL;
  return value.is_number() ? HParamInfo::DATA_TYPE_FLOAT64 : HParamInfo::DATA_TYPE_STRING;
}

Event plugin_event(const std::string& tag, const HParamsPluginData& data) {
  Event event;
  Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag("_hparams_/" + tag);
  set_plugin(value, "hparams", data.SerializeAsString());
  // A summary has a value: one of no numbers.
  value.mutable_tensor()->set_dtype(TensorProto::DT_FLOAT);
  value.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(0);
  return event;
}

}  // namespace

Event scalars_event(const MetricRow& row) {
  Event event;
  event.set_step(row.step);
  const auto add = [&](const std::string& name, double number) {
    Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(name);
    value.set_simple_value(static_cast<float>(number));
  };
  add("epoch", static_cast<double>(row.epoch));
  for (const auto& [name, number] : row.values) add(name, number);
  return event;
}

Event item_event(const LoggedItem& item) {
  Event event;
  event.set_step(item.step);
  if (item.kind() == LoggedItem::Kind::kFile) return event;
  Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(item.name);
  if (const auto* image = std::get_if<LoggedImage>(&item.content)) set_image(value, *image);
  if (const auto* figure = std::get_if<LoggedFigure>(&item.content)) set_image(value, figure->image);
  if (const auto* histogram = std::get_if<LoggedHistogram>(&item.content)) set_histogram(value, *histogram);
  if (const auto* text = std::get_if<LoggedText>(&item.content)) set_text(value, text->text);
  if (const auto* table = std::get_if<Table>(&item.content)) set_text(value, markdown_of(*table));
  return event;
}

Event restart_event(std::int64_t step) {
  Event event;
  event.set_step(step);
  event.mutable_session_log()->set_status(SessionLog::START);
  return event;
}

Event hparams_event(const Value& hyperparams) {
  HParamsPluginData data;
  SessionStartInfo& start = *data.mutable_session_start_info();
  start.set_start_time_secs(seconds_now());
  each_leaf(hyperparams, "", [&](const std::string& path, const Value& value) {
    if (!value.is_null()) (*start.mutable_hparams())[path] = hparam_of(value);
  });
  return plugin_event("session_start_info", data);
}

Event experiment_event(const Value& hyperparams, const std::set<std::string>& metrics) {
  HParamsPluginData data;
  Experiment& experiment = *data.mutable_experiment();
  experiment.set_time_created_secs(seconds_now());
  each_leaf(hyperparams, "", [&](const std::string& path, const Value& value) {
    if (value.is_null()) return;
    HParamInfo& info = *experiment.add_hparam_infos();
    info.set_name(path);
    info.set_type(type_of(value));
  });
  for (const std::string& metric : metrics) experiment.add_metric_infos()->mutable_name()->set_tag(metric);
  return plugin_event("experiment", data);
}

Event end_event(std::string_view status) {
  HParamsPluginData data;
  SessionEndInfo& end = *data.mutable_session_end_info();
  end.set_status(status == "success" ? SessionEndInfo::STATUS_SUCCESS : SessionEndInfo::STATUS_FAILURE);
  end.set_end_time_secs(seconds_now());
  return plugin_event("session_end_info", data);
}

std::string markdown_of(const Table& table) {
  const auto line = [](const std::vector<std::string>& cells) { return "| " + join(cells, " | ") + " |\n"; };
  std::vector<std::string> cells;
  for (const std::string& column : table.columns) cells.push_back(cell_text(column));
  std::string text = line(cells) + line(std::vector<std::string>(cells.size(), "---"));
  for (const std::vector<Value>& row : table.rows) {
    cells.clear();
    for (const Value& cell : row) cells.push_back(cell_text(cell));
    text += line(cells);
  }
  return text;
}

}  // namespace levin::tensorboard
