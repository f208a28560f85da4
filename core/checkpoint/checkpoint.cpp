#include "levin/core/checkpoint/checkpoint.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/config/value_json.h"
#include "levin/core/device_copies.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/paths.h"

namespace levin {
namespace {

/// The key of the manifest in the file's metadata, which makes a safetensors file a checkpoint.
constexpr char kManifestKey[] = "levin_manifest";

namespace fs = std::filesystem;

constexpr char kManifestChecksumKey[] = "levin_manifest_crc32";
constexpr char kDataChecksumKey[] = "levin_data_crc32";

std::string dtype_name(const std::string& tensor, at::ScalarType type) {
  const ElementType* const known = element_type(&ElementType::torch, c10::getDtypeNames(type).first);
  if (known != nullptr && !known->safetensors.empty()) return std::string(known->safetensors);
  throw IoError(format("Tensor '{}' has type {}, which a safetensors file cannot hold.", tensor, c10::toString(type)));
}

void check_can_be_saved(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) throw MisuseError(format("Tensor '{}' of the checkpoint is undefined.", name));
  if (tensor.layout() != at::kStrided) {
    throw MisuseError(format("Tensor '{}' of the checkpoint is sparse: make it dense before saving.", name));
  }
}

/// As copy_(), into a contiguous tensor of the same type on the CPU; with memcpy() where possible, which bypasses the
/// processor's caches for large tensors.
void copy_numbers(at::Tensor& target, const at::Tensor& source) {
  if (!source.is_cpu() || !source.is_contiguous() || source.is_conj() || source.is_neg()) {
    target.copy_(source.detach(), /*non_blocking=*/target.is_pinned());
    return;
  }
  constexpr std::int64_t kLeastBytesOfThread = std::int64_t{1} << 20;
  auto* const to = static_cast<char*>(target.mutable_data_ptr());
  const auto* const from = static_cast<const char*>(source.const_data_ptr());
  at::parallel_for(0, static_cast<std::int64_t>(source.nbytes()), kLeastBytesOfThread,
                   [&](std::int64_t begin, std::int64_t end) {
                     std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
                   });
}

/// Waits for copies queued on the current streams of these devices.
void wait_for(const std::unordered_set<at::Device>& devices) {
  for (const at::Device& device : devices) current_stream(device).synchronize();
}

/// Tensors of one block of memory in row-major order on the CPU, each its own where possible.
std::map<std::string, at::Tensor> plain_tensors(const std::map<std::string, at::Tensor>& tensors) {
  std::map<std::string, at::Tensor> all;
  std::unordered_set<at::Device> devices;
  for (const auto& [name, tensor] : tensors) {
    check_can_be_saved(name, tensor);
    const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg();
    if (!plain.is_cpu()) devices.insert(plain.device());
    all[name] = plain.is_cpu() ? plain.contiguous() : sent_to_host(plain);
  }
  wait_for(devices);
  return all;
}

/// Larger elements first: then every tensor of the file is aligned to its elements, without holes between them.
std::vector<std::pair<std::string, at::Tensor>> in_file_order(const std::map<std::string, at::Tensor>& tensors) {
  const std::map<std::string, at::Tensor> plain = plain_tensors(tensors);
  std::vector<std::pair<std::string, at::Tensor>> ordered(plain.begin(), plain.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& left, const auto& right) {
    return left.second.element_size() > right.second.element_size();
  });
  return ordered;
}

SafetensorsHeader header_of(const std::vector<std::pair<std::string, at::Tensor>>& ordered) {
  SafetensorsHeader header;
  for (const auto& [name, tensor] : ordered) {
    const std::uint64_t begin = header.data_size;
    header.data_size += tensor.nbytes();
    header.tensors[name] = {dtype_name(name, tensor.scalar_type()), tensor.sizes().vec(), begin, header.data_size};
  }
  return header;
}

/// Returns the checksum of the data. A piece is written while it is in the processor's cache, and goes to disk while the next
/// ones are read.
std::uint32_t write_data(AtomicFile& output, const std::vector<std::pair<std::string, at::Tensor>>& ordered) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  constexpr std::size_t kSent = 16 * kPiece;
  std::uint32_t data_checksum = 0;
  std::size_t waiting = 0;
  for (const auto& [name, tensor] : ordered) {
    for (std::string_view bytes(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()); !bytes.empty();) {
      const std::string_view piece = bytes.substr(0, kPiece);
      data_checksum = checksum_of(piece, data_checksum);
      output.write(piece);
      waiting += piece.size();
      bytes.remove_prefix(piece.size());
      if (waiting < kSent) continue;
      output.send_to_disk();
      waiting = 0;
    }
  }
  return data_checksum;
}

struct LoadedFile {
  std::shared_ptr<MappedFile> mapping;
  SafetensorsHeader header;
  Value manifest;
};

bool holds(const SafetensorsHeader& header, const char* key, std::string_view covered) {
  const auto expected = header.metadata.find(key);
  return expected != header.metadata.end() && expected->second == std::to_string(checksum_of(covered));
}

/// What a file's checksums cover besides the data: of levin's checkpoints; null: other files.
const std::string* manifest_of(const SafetensorsHeader& header) {
  const auto manifest = header.metadata.find(kManifestKey);
  return manifest == header.metadata.end() ? nullptr : &manifest->second;
}

std::vector<ChecksumReport> checks_of(std::string_view file, const SafetensorsHeader& header) {
  const std::string* const manifest = manifest_of(header);
  if (manifest == nullptr) return {};
  return {{"manifest", holds(header, kManifestChecksumKey, *manifest)},
          {"tensor data", holds(header, kDataChecksumKey, file.substr(header.data_offset))}};
}

// Throws an IoError with the problem, without the file's name.
LoadedFile read_any(const fs::path& file) {
  LoadedFile loaded{std::make_shared<MappedFile>(file), {}, Value(Value::Map{})};
  const std::string_view bytes = loaded.mapping->bytes();
  loaded.header = parse_safetensors(bytes);
  for (const ChecksumReport& check : checks_of(bytes, loaded.header)) {
    if (!check.holds) throw IoError(format("its checksum shows that its {} is damaged", check.what));
  }
  if (const std::string* manifest = manifest_of(loaded.header)) loaded.manifest = parse_json(*manifest);
  if (!loaded.manifest.is_map()) throw IoError("its manifest is not a map");
  return loaded;
}

// The same, of a checkpoint.
LoadedFile read_file(const fs::path& file) {
  LoadedFile loaded = read_any(file);
  if (manifest_of(loaded.header) == nullptr) {
    throw IoError("it is a safetensors file, but not a levin checkpoint: it has no manifest in its metadata");
  }
  return loaded;
}

at::Tensor mapped_tensor(const std::string& name, const SafetensorsEntry& entry, const LoadedFile& loaded) {
  const ElementType& type = *element_type(&ElementType::safetensors, entry.dtype);
  const auto options = at::TensorOptions().dtype(c10::getStringToDtypeMap().at(std::string(type.torch)));
  try {
    if (entry.begin == entry.end) return at::empty(entry.shape, options);
    char* data = loaded.mapping->data() + loaded.header.data_offset + entry.begin;
    // The tensor keeps the mapping alive.
    const at::Tensor tensor = at::from_blob(
        data, entry.shape, [mapping = loaded.mapping](void*) {}, options);
    // Another program's file may be unaligned.
    const bool aligned = reinterpret_cast<std::uintptr_t>(data) % type.size == 0;
    return aligned ? tensor : tensor.clone();
  } catch (const c10::Error& error) {
    throw IoError(format("tensor '{}' cannot be made: {}", name, error.what_without_backtrace()));
  }
}

Checkpoint mapped(LoadedFile loaded) {
  Checkpoint checkpoint;
  for (const auto& [name, entry] : loaded.header.tensors) checkpoint.tensors[name] = mapped_tensor(name, entry, loaded);
  checkpoint.manifest = std::move(loaded.manifest);
  return checkpoint;
}

std::optional<fs::path> newest_whole_file_beside(const fs::path& refused) {
  for (const fs::path& path : newest_files(folder_of(refused), refused.extension())) {
    if (path.filename() == refused.filename() || path.filename().string().starts_with('.')) continue;
    try {
      read_file(path);
      return path;
    } catch (const IoError&) {
      // Not a whole checkpoint: the next older file may be one.
    }
  }
  return std::nullopt;
}

}  // namespace

void throw_unreadable(const fs::path& file, const IoError& error) {
  const auto good = newest_whole_file_beside(file);
  throw IoError(format("Cannot load '{}': {}.", file, error.what()) +
                (good ? format(" The newest whole checkpoint in its folder is '{}'.", *good) : ""));
}

Checkpoint read_safetensors(const fs::path& file, std::vector<std::string>& names) {
  LoadedFile loaded = read_any(file);
  std::vector<std::pair<std::uint64_t, std::string>> placed;
  for (const auto& [name, entry] : loaded.header.tensors) placed.emplace_back(entry.begin, name);
  std::sort(placed.begin(), placed.end());
  for (auto& [place, name] : placed) names.push_back(std::move(name));
  return mapped(std::move(loaded));
}

std::vector<ChecksumReport> safetensors_checks(std::string_view file) { return checks_of(file, parse_safetensors(file)); }

void save_safetensors(const fs::path& file, const std::map<std::string, at::Tensor>& tensors, const Value* manifest) {
  const std::vector<std::pair<std::string, at::Tensor>> ordered = in_file_order(tensors);
  SafetensorsHeader header = header_of(ordered);
  header.metadata = {{"format", "pt"}};
  if (manifest != nullptr) {
    header.metadata[kManifestKey] = to_json(*manifest);
    header.metadata[kManifestChecksumKey] = std::to_string(checksum_of(header.metadata[kManifestKey]));
    // The data's checksum is known after writing: until then the longest one is a placeholder.
    header.metadata[kDataChecksumKey] = std::to_string(std::numeric_limits<std::uint32_t>::max());
  }
  const std::string preliminary = write_safetensors_header(header);
  AtomicFile output(file);
  output.write(preliminary);
  const std::uint32_t data_checksum = write_data(output, ordered);
  if (manifest != nullptr) {
    header.metadata[kDataChecksumKey] = std::to_string(data_checksum);
    output.write_at(0, write_safetensors_header(header, preliminary.size()));
  }
  output.commit();
}

Checkpoint Checkpoint::on_host() && {
  Checkpoint plain;
  plain.tensors = plain_tensors(tensors);
  plain.manifest = std::move(manifest);
  tensors.clear();
  return plain;
}

void Checkpoint::save(const fs::path& file) const { save_safetensors(file, tensors, &manifest); }

namespace {

/// No other tensor can change its numbers. A tensor that does not own its memory could not be resized.
bool is_alone(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || !tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg() || tensor.requires_grad())
    return false;
  const at::Storage& storage = tensor.storage();
  return tensor.use_count() == 1 && storage.use_count() == 1 && storage.resizable() && storage.nbytes() == tensor.nbytes();
}

}  // namespace

Checkpoint Checkpoint::copy(Checkpoint memory) && {
  Checkpoint copied;
  std::unordered_set<at::Device> devices;
  for (const auto& [name, tensor] : tensors) {
    check_can_be_saved(name, tensor);
    dtype_name(name, tensor.scalar_type());
    at::Tensor& target = copied.tensors[name];
    if (is_alone(tensor)) {
      target = tensor;
      continue;
    }
    const auto old = memory.tensors.find(name);
    const bool fits = old != memory.tensors.end() && old->second.scalar_type() == tensor.scalar_type() &&
                      old->second.sizes() == tensor.sizes() && old->second.is_cpu() && old->second.is_contiguous();
    const auto options = tensor.is_cpu() ? tensor.options() : host_options(tensor);
    target = fits ? std::move(old->second) : at::empty(tensor.sizes(), options);
    copy_numbers(target, tensor);
    if (!tensor.is_cpu()) devices.insert(tensor.device());
  }
  // One wait for all of them.
  wait_for(devices);
  // Last: an error leaves this one whole.
  copied.manifest = std::move(manifest);
  tensors.clear();
  return copied;
}

Checkpoint Checkpoint::load(const fs::path& file) {
  return naming_file(file, [&] { return mapped(read_file(file)); });
}

Value Checkpoint::load_manifest(const fs::path& file) {
  return naming_file(file, [&] {
    const MappedFile mapping(file);
    const SafetensorsHeader header = parse_safetensors(mapping.bytes());
    const std::string* const manifest = manifest_of(header);
    if (manifest == nullptr || !holds(header, kManifestChecksumKey, *manifest)) throw IoError("it has no whole manifest");
    return parse_json(*manifest);
  });
}

bool Checkpoint::is_checkpoint(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(file, error))) return false;
  try {
    return manifest_of(parse_safetensors(MappedFile(file).bytes())) != nullptr;
  } catch (const IoError&) {
    return false;
  }
}

}  // namespace levin
