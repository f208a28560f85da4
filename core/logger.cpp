#include "levin/core/logger.h"

namespace levin {

Logger::~Logger() = default;
std::string Logger::open(const RunInfo&) { return {}; }
void Logger::attach(const RunInfo&, const std::string&) {}
void Logger::log_metrics(const MetricRow&) {}
bool Logger::wants_rank_metrics() const { return false; }
void Logger::log_rank_metrics(const MetricRow&) {}
bool Logger::wants_all_ranks() const { return false; }
void Logger::log_all_ranks(const MetricRow&, const std::vector<MetricMap>&) {}
void Logger::log_hyperparams(const Value&) {}
void Logger::after_save_checkpoint(const std::filesystem::path&) {}
RowCounts Logger::rows_written() const { return {}; }
void Logger::save() {}
void Logger::finalize(const std::string&) {}
Value Logger::settings() const { return {}; }
std::string Logger::name() const { return "logs"; }
std::string Logger::version() const { return {}; }
std::filesystem::path Logger::log_dir() const { return {}; }

}  // namespace levin
