#include "levin/data/shard_writer.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/atomic_file.h"
#include "levin/data/stream_coders.h"
#include "levin/data/tar_reader.h"

namespace levin {

namespace fs = std::filesystem;

std::pair<std::string_view, std::string_view> key_and_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::size_t last = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = path.find('.', last);
  if (dot == std::string_view::npos || dot == last) return {path, {}};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

bool ShardSample::contains(std::string_view name) const {
  return std::ranges::any_of(files, [&](const auto& file) { return file.first == name; });
}

const std::string& ShardSample::operator[](std::string_view name) const {
  for (const auto& [own, bytes] : files) {
    if (own == name) return bytes;
  }
  std::vector<std::string> names;
  for (const auto& [own, bytes] : files) names.push_back(own);
  throw IoError(format("the sample '{}' has no file '{}'; it has {}", key, name, quoted_list(names)));
}

std::int64_t ShardSample::number(std::string_view name) const {
  const std::string& text = (*this)[name];
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool ends =
      std::all_of(end, text.data() + text.size(), [](char rest) { return rest == '\n' || rest == '\r' || rest == ' '; });
  if (error != std::errc() || !ends) throw IoError(format("the file '{}' of the sample '{}' is no whole number", name, key));
  return value;
}

/// The shard that is being written.
struct ShardWriter::OpenShard {
  OpenShard(const fs::path& path, Compression compression) : path(path), file(path), encoder(make_encoder(compression)) {}
  void write(const std::string& bytes) { file.write(encoder ? encoder->encode(bytes) : bytes); }
  void finish() {
    write(std::string(2 * kTarBlock, '\0'));
    if (encoder) file.write(encoder->finish());
    file.commit();
  }

  fs::path path;
  AtomicFile file;
  std::unique_ptr<StreamEncoder> encoder;  ///< null: not compressed
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
};

ShardWriter::ShardWriter(fs::path folder, std::string prefix, const ShardWriterOptions& options)
    : folder_(std::move(folder)), prefix_(std::move(prefix)), options_(options) {
  if (options.max_samples < 1 || options.max_bytes < 1) throw MisuseError("a shard has at least 1 sample and 1 byte");
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::add(const ShardSample& sample) {
  if (sample.files.empty()) throw MisuseError(format("the sample '{}' has no files", sample.key));
  if (open_ && (open_->samples == options_.max_samples || open_->bytes >= options_.max_bytes)) complete();
  if (!open_) {
    const std::string name = format("{}-{:06}.tar{}", prefix_, shards_.size(), ending_of(options_.compression));
    open_ = std::make_unique<OpenShard>(folder_ / name, options_.compression);
  }
  for (const auto& [name, bytes] : sample.files) {
    const std::string path = format("{}.{}", sample.key, name);
    if (key_and_name(path) != std::pair<std::string_view, std::string_view>(sample.key, name)) {
      throw MisuseError(format("'{}' cannot be read back: the last part of a sample's key has no dot, and is not empty", path));
    }
    const auto size = static_cast<std::int64_t>(bytes.size());
    open_->write(tar_header(path, size));
    open_->write(bytes);
    open_->write(std::string(static_cast<std::size_t>(tar_padding(size)), '\0'));
    open_->bytes += size;
  }
  ++open_->samples;
  ++samples_;
}

void ShardWriter::complete() {
  open_->finish();
  shards_.push_back(open_->path);
  open_ = nullptr;
}

void ShardWriter::finish() {
  if (open_) complete();
}

}  // namespace levin
