#include "levin/loggers/wandb/records.h"

#include <sys/utsname.h>

#include <cmath>
#include <filesystem>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/config/value_json.h"
#include "levin/loggers/media_folder.h"
#include "levin/loggers/wandb/digest.h"
#include "wandb/messages.pb.h"

namespace levin::wandb {
namespace {

namespace fs = std::filesystem;

void set_time(Timestamp& time, double seconds) {
  time.set_seconds(static_cast<std::int64_t>(seconds));
  time.set_nanos(static_cast<std::int32_t>((seconds - std::floor(seconds)) * 1e9));
}

template <class Items>
void add_fields(Items& items, const Fields& fields) {
  for (const auto& [name, json] : fields) {
    Item& item = *items.Add();
    item.set_key(name);
    item.set_value_json(json);
  }
}

std::string html_of(std::string_view text) {
  std::string html = "<meta charset=\"utf-8\"><pre style=\"white-space: pre-wrap\">";
  for (const char one : text) {
    if (one == '<') {
      html += "&lt;";
    } else if (one == '&') {
      html += "&amp;";
    } else {
      html += one;
    }
  }
  return html + "</pre>\n";
}

std::string json_of(const LoggedHistogram& histogram) {
  Value::List bins;
  if (!histogram.limits.empty()) bins.emplace_back(histogram.min);
  bins.insert(bins.end(), histogram.limits.begin(), histogram.limits.end());
  Value::List counts(histogram.counts.begin(), histogram.counts.end());
  return to_json(Value::Map{{"_type", "histogram"}, {"values", std::move(counts)}, {"bins", std::move(bins)}});
}

}  // namespace

std::string json_of(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  std::string text;
  append_float(text, number);
  return text;
}

Record header_record() {
  Record record;
  record.mutable_header()->mutable_version_info()->set_producer("levin");
  return record;
}

Record run_record(const RunIdentity& run, double start_time, bool resumes, double runtime) {
  Record record;
  RunRecord& fields = *record.mutable_run();
  fields.set_run_id(run.id);
  fields.set_entity(run.entity);
  fields.set_project(run.project);
  fields.set_run_group(run.group);
  fields.set_job_type(run.job_type);
  fields.set_display_name(without_secrets(run.name));
  fields.set_notes(without_secrets(run.notes));
  for (const std::string& tag : run.tags) fields.add_tags(without_secrets(tag));
  fields.set_host(host_name());
  set_time(*fields.mutable_start_time(), start_time);
  fields.set_resume(resumes);
  fields.set_runtime(static_cast<std::int32_t>(runtime));
  fields.mutable_telemetry()->mutable_feature()->set_lib_cpp(true);
  return record;
}

Record environment_record(double start_time) {
  Record record;
  EnvironmentRecord& fields = *record.mutable_environment();
  utsname system{};
  if (uname(&system) == 0) fields.set_os(format("{}-{}-{}", &system.sysname[0], &system.release[0], &system.machine[0]));
  set_time(*fields.mutable_started_at(), start_time);
  const std::vector<std::string> words = without_secrets(own_command_line());
  for (std::size_t word = 1; word < words.size(); ++word) fields.add_args(words[word]);
  if (!words.empty()) fields.set_program(words[0]);
  std::error_code unknown;
  fields.set_executable(fs::read_symlink("/proc/self/exe", unknown).string());
  fields.set_root(fs::current_path(unknown).string());
  fields.set_host(host_name());
  fields.set_cpu_count_logical(static_cast<std::uint32_t>(usable_cores()));
  return record;
}

Record history_record(std::int64_t row, const Fields& fields) {
  Record record;
  add_fields(*record.mutable_history()->mutable_item(), fields);
  record.mutable_history()->mutable_step()->set_num(row);
  return record;
}

Record summary_record(const Fields& fields) {
  Record record;
  add_fields(*record.mutable_summary()->mutable_update(), fields);
  return record;
}

Record config_record(const Value& hyperparams) {
  Fields fields;
  for (const auto& [name, value] : hyperparams.as_map()) fields.emplace_back(name, plain_json(value));
  Record record;
  add_fields(*record.mutable_config()->mutable_update(), fields);
  return record;
}

Record metric_record(const std::string& name) {
  Record record;
  MetricRecord& metric = *record.mutable_metric();
  metric.set_name(name);
  if (name != kStepName) metric.set_step_metric(std::string(kStepName));
  metric.mutable_options()->set_defined(true);
  return record;
}

Record file_record(const std::string& path) {
  Record record;
  FilesRecord::File& file = *record.mutable_files()->add_files();
  file.set_path(path);
  file.set_type(FilesRecord::File::MEDIA);
  return record;
}

Record exit_record(int exit_code, double runtime) {
  Record record;
  record.mutable_exit()->set_exit_code(exit_code);
  record.mutable_exit()->set_runtime(static_cast<std::int32_t>(runtime));
  return record;
}

ShownItem show(const LoggedItem& item, MediaFolder& media, const fs::path& files) {
  if (const auto* histogram = std::get_if<LoggedHistogram>(&item.content)) return {.json = json_of(*histogram)};
  const auto shown = [&](const fs::path& path, std::string_view content, Value::Map said) {
    const std::string below = path.lexically_relative(files).string();
    said.emplace_back("path", below);
    said.emplace_back("sha256", sha256(content));
    said.emplace_back("size", std::ssize(content));
    return ShownItem{to_json(std::move(said)), below};
  };
  if (const auto* text = std::get_if<LoggedText>(&item.content)) {
    const std::string html = html_of(text->text);
    return shown(media.write(item, ".html", html), html, {{"_type", "html-file"}});
  }
  if (const auto* table = std::get_if<Table>(&item.content)) {
    const std::string json = table_json(*table);
    return shown(media.write(item, ".table.json", json), json,
                 {{"_type", "table-file"}, {"ncols", std::ssize(table->columns)}, {"nrows", std::ssize(table->rows)}});
  }
  const fs::path path = media.write(item);
  if (item.kind() == LoggedItem::Kind::kFile) return {.path = path.lexically_relative(files).string()};
  const auto* image = std::get_if<LoggedImage>(&item.content);
  if (image == nullptr) image = &std::get<LoggedFigure>(item.content).image;
  return shown(path, image->png,
               {{"_type", "image-file"}, {"format", "png"}, {"width", image->width}, {"height", image->height}});
}

}  // namespace levin::wandb
