// A CSV text: a byte of options, the delimiter, then the text.
#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/data/csv_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::IoError>(data, size, [](std::string_view input) {
    levin::fuzz::Bytes bytes(input);
    const unsigned choice = bytes.byte();
    levin::CsvOptions options;
    options.delimiter = static_cast<char>(bytes.byte());
    if (choice & 1) options.header = (choice & 2) != 0;
    if (choice & 4) options.missing = -1.0;
    if (choice & 8) options.decimal = ',';
    if (choice & 16) options.complete_columns = {"-1"};
    const levin::CsvTable table = levin::parse_csv(bytes.rest(), "fuzz.csv", options);
    FUZZ_CHECK(table.values.dim() == 2, std::to_string(table.values.dim()));
    FUZZ_CHECK(table.columns.empty() || table.columns.size() == static_cast<std::size_t>(table.values.size(1)),
               std::to_string(table.columns.size()));
    FUZZ_CHECK(table.values.numel() <= static_cast<std::int64_t>(input.size()), std::to_string(table.values.numel()));
  });
}
