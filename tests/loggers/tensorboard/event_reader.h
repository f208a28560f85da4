#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "levin/loggers/tensorboard/event_file.h"
#include "support/file_text.h"
#include "tensorboard/messages.pb.h"

namespace levin::test {

/// The records of a TFRecord file. Throws std::runtime_error for a wrong CRC or a part of a record.
inline std::vector<std::string> records_of(const std::string& text) {
  std::vector<std::string> records;
  std::size_t at = 0;
  const auto take = [&](std::size_t size) {
    if (size > text.size() - at) throw std::runtime_error("a record ends too early");
    at += size;
    return text.substr(at - size, size);
  };
  const auto number_in = [](const std::string& bytes) {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  };
  const auto check = [&](const std::string& bytes) {
    const auto masked = static_cast<std::uint32_t>(number_in(take(4)));
    const std::uint32_t rotated = masked - 0xa282ead8U;
    if ((rotated << 15U | rotated >> 17U) != tensorboard::crc32c(bytes)) throw std::runtime_error("a record's CRC is wrong");
  };
  while (at < text.size()) {
    const std::string length = take(8);
    check(length);
    records.push_back(take(number_in(length)));
    check(records.back());
  }
  return records;
}

/// The events of a file, without the first, which says its version.
inline std::vector<tensorboard::Event> events_of(const std::filesystem::path& file) {
  std::vector<tensorboard::Event> events;
  for (const std::string& record : records_of(read_text(file))) {
    if (!events.emplace_back().ParseFromString(record)) throw std::runtime_error("a record is no event");
  }
  if (events.empty() || events.front().file_version() != "brain.Event:2") throw std::runtime_error("no version comes first");
  events.erase(events.begin());
  return events;
}

}  // namespace levin::test
