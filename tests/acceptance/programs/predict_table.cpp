// A user's own program: predicts the rows of a table with names of columns, and prints what predictions.csv has. Run by
// cases/deploy.txt: predict_table CHECKPOINT TABLE.CSV [PLUG-IN …]
#include <levin/levin.h>

#include <array>
#include <charconv>
#include <fstream>
#include <iostream>
#include <sstream>

namespace {

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) all.push_back(cell);
  return all;
}

std::vector<levin::Value> records_of(const std::filesystem::path& table) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = cells(line);
  std::vector<levin::Value> records;
  while (std::getline(file, line)) {
    const std::vector<std::string> values = cells(line);
    levin::Value record(levin::Value::Map{});
    for (std::size_t column = 0; column < names.size(); ++column) {
      const bool is_number = values[column].find_first_not_of("0123456789.-") == std::string::npos;
      record[names[column]] = is_number ? levin::Value(std::stod(values[column])) : levin::Value(values[column]);
    }
    records.push_back(std::move(record));
  }
  return records;
}

/// The shortest text of the same bits.
std::string text_of(const at::Tensor& number) {
  if (!number.is_floating_point()) return std::to_string(number.item<std::int64_t>());
  std::array<char, 32> text = {};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number.item<float>()).ptr};
}

}  // namespace

int main(int argc, char** argv) {
  return levin::run_main([&] {
    const auto predictor = levin::Predictor::load(argv[1], {.plugins = {argv + 3, argv + argc}});
    const levin::Batch predictions = predictor.predict_records(records_of(argv[2]));
    const std::vector<std::string>& classes = predictor.facts().class_names;
    for (std::int64_t row = 0; row < predictions[0].size(0); ++row) {
      std::string line;
      for (const auto& [name, tensor] : predictions.items()) {
        const at::Tensor numbers = tensor[row].reshape({-1});
        for (std::int64_t index = 0; index < numbers.numel(); ++index) line += text_of(numbers[index]) + ',';
        if (name == "label" && !classes.empty())
          line += classes.at(static_cast<std::size_t>(tensor[row].item<std::int64_t>())) + ',';
      }
      line.pop_back();
      std::cout << line << '\n';
    }
  });
}
