#include "options/meanings_of_numbers.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/run_config.h"
#include "levin/core/base/text.h"
#include "levin/core/config/options.h"
#include "levin/core/trainer_options.h"
#include "levin/data/data_loader.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

enum class Kind { kNone, kNumber, kTime };

Kind kind_of(const Value& schema) {
  if (const Value* type = schema.find("type")) {
    if (*type == Value("number") || *type == Value("integer")) return Kind::kNumber;
  }
  if (const Value* pattern = schema.find("pattern")) {
    if (pattern->as_string().find(":(") != std::string::npos && pattern->as_string().find("\\d\\d") != std::string::npos)
      return Kind::kTime;
  }
  const Value* const alternatives = schema.find("anyOf");
  for (const Value& alternative : alternatives != nullptr ? alternatives->as_list() : Value::List()) {
    if (const Kind kind = kind_of(alternative); kind != Kind::kNone) return kind;
  }
  return Kind::kNone;
}

/// What options that have no default need, so that the others can be looked at.
Value required_arguments(const std::string& class_name, const std::filesystem::path& table) {
  const Value step(Value::Map{{"class_path", "ConstantLR"}});
  const std::map<std::string, Value::Map> known = {
      {"TableDataModule", {{"path", table.string()}}},
      {"ParquetDataModule", {{"path", table.string()}}},
      {"ArrayDataModule", {{"train_path", table.string()}}},
      {"Hdf5DataModule", {{"train_path", table.string()}}},
      {"EarlyStopping", {{"monitor", "val_loss"}}},
      {"GradientAccumulationScheduler", {{"scheduling", Value(Value::Map{{"0", 1}})}}},
      {"StochasticWeightAveraging", {{"swa_lrs", 0.1}}},
      {"StepLR", {{"step_size", 1}}},
      {"MultiStepLR", {{"milestones", Value(Value::List{1})}}},
      {"CosineAnnealingWarmRestarts", {{"T_0", 1}}},
      {"CyclicLR", {{"base_lr", 0.1}, {"max_lr", 1.0}}},
      {"ExponentialLR", {{"gamma", 0.9}}},
      {"LambdaLR", {{"lr_lambda", "1"}}},
      {"MultiplicativeLR", {{"lr_lambda", "1"}}},
      {"OneCycleLR", {{"max_lr", 0.1}}},
      {"SWALR", {{"swa_lr", 0.1}}},
      {"ChainedScheduler", {{"schedulers", Value(Value::List{step})}}},
      {"SequentialLR", {{"schedulers", Value(Value::List{step, step})}, {"milestones", Value(Value::List{1})}}},
  };
  const auto found = known.find(class_name);
  return Value(found != known.end() ? found->second : Value::Map());
}

/// What `read` says of `option` where it has this value.
std::string objection(const std::function<void(const Value&)>& read, Value arguments, const std::string& option,
                      const Value& value) {
  arguments[option] = value;
  try {
    read(arguments);
  } catch (const ConfigError& error) {
    for (const ConfigError& single : single_errors(error)) {
      // Of a rule between options, too, which stands alone once each is right by itself.
      const std::string& message = single.message();
      if (!message.starts_with("missing key") &&
          (message.find(option) != std::string::npos || message.find(':') == std::string::npos))
        return message;
    }
  }
  return "";
}

void add(std::vector<NumericOption>& found, const std::string& prefix, const std::vector<OptionInfo>& options,
         const Value& arguments, const std::function<void(const Value&)>& read) {
  for (const OptionInfo& info : options) {
    const Kind kind = kind_of(info.schema);
    if (kind == Kind::kNone) continue;
    NumericOption option{.name = prefix + "." + info.name};
    const std::array<Value, kProbed> values = {kind == Kind::kTime ? Value("00:00:00:00") : Value(0), Value(), Value(-1)};
    for (std::size_t column = 0; column < kProbed; ++column)
      option.objections[column] = objection(read, arguments, info.name, values[column]);
    option.may_be_null = info.type.ends_with("or null") || info.type.find(" or null") != std::string::npos;
    found.push_back(std::move(option));
  }
}

template <class Options>
void add_struct(std::vector<NumericOption>& found, const std::string& prefix) {
  add(found, prefix, describe_options<Options>(), Value(Value::Map{}),
      [](const Value& arguments) { read_options<Options>(arguments); });
}

}  // namespace

std::vector<NumericOption> numeric_options() {
  std::vector<NumericOption> found;
  add(found, "run", describe_options<cli::RunConfig>(), Value(Value::Map{}),
      [](const Value& arguments) { read_options<cli::RunConfig>(arguments); });
  add_struct<TrainerOptions>(found, "trainer");
  add_struct<ProcessOptions>(found, "trainer.process");
  add_struct<cli::SchedulerSettings>(found, "lr_scheduler");
  add_struct<DataLoaderOptions>(found, "DataLoader");
  const TemporaryFolder folder;
  std::ofstream(folder / "table.csv") << "1,0\n2,1\n";
  for (const cli::ClassKind& kind : cli::class_catalog()) {
    for (const ClassInfo* info : kind.classes()) {
      add(found, info->name, info->options, required_arguments(info->name, folder / "table.csv"), info->complete);
    }
  }
  return found;
}

std::vector<MeaningRow> meaning_rows() {
  std::ifstream file(LEVIN_SOURCE_DIR "/tests/options/meanings_of_numbers.txt");
  std::vector<MeaningRow> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    std::vector<std::string> fields = split(line, "|");
    if (fields.size() != kProbed + 1 && fields.size() != kProbed + 2)
      throw std::runtime_error("not a name, three meanings and perhaps a test: " + line);
    for (std::string& field : fields) {
      field.erase(0, field.find_first_not_of(' '));
      field.erase(field.find_last_not_of(' ') + 1);
    }
    rows.push_back({fields[0], {fields[1], fields[2], fields[3]}, fields.size() > kProbed + 1 ? fields.back() : ""});
  }
  return rows;
}

}  // namespace levin::test
