#include "levin/core/formats/torch_file.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <caffe2/serialize/inline_container.h>

#include <cstring>
#include <exception>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/formats/libtorch_archive.h"
#include "levin/core/formats/lightning_checkpoint.h"

namespace levin {
namespace {

/// The result of a module's get_extra_state(), which is not a weight.
constexpr std::string_view kExtraState = "_extra_state";

at::ScalarType scalar_type(const std::string& dtype) {
  const auto& types = c10::getStringToDtypeMap();
  const auto found = types.find(dtype);
  if (found == types.end()) throw IoError(format("a tensor has the dtype {}, which levin does not read", quoted_text(dtype)));
  return found->second;
}

/// The bytes of a file that is mapped, or a copy of them where elements would not be aligned.
c10::Storage storage_of(std::string_view bytes, const std::shared_ptr<MappedFile>& mapping) {
  constexpr std::uintptr_t kAlignment = 16;  // of the largest elements
  char* const first = mapping->data() + (bytes.data() - mapping->data());
  if (reinterpret_cast<std::uintptr_t>(first) % kAlignment != 0) {
    const at::Tensor copy = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
    if (!bytes.empty()) std::memcpy(copy.mutable_data_ptr(), bytes.data(), bytes.size());
    return copy.storage();
  }
  auto owner = std::make_unique<std::shared_ptr<MappedFile>>(mapping);
  at::DataPtr data(
      first, owner.release(), [](void* kept) { delete static_cast<std::shared_ptr<MappedFile>*>(kept); }, at::kCPU);
  return {c10::Storage::use_byte_size_t(), bytes.size(), std::move(data), /*allocator=*/nullptr, /*resizable=*/false};
}

}  // namespace

TorchFile::TorchFile(const std::filesystem::path& file)
    : mapping_(std::make_shared<MappedFile>(file)), archive_(mapping_->bytes()), plain_(archive_.pickle_bytes()) {
  // Tensors may share their storage, and repeat its elements (with strides of 0); a copy of one has all of its bytes.
  constexpr std::uint64_t kFixed = std::uint64_t{256} << 20U;
  constexpr std::uint64_t kTimesItsSize = 64;
  bytes_left_ = kFixed + kTimesItsSize * mapping_->bytes().size();
}

at::Tensor TorchFile::tensor(const PickleTensor& described) {
  const at::ScalarType type = scalar_type(described.storage.dtype);
  const ZipEntry& entry = archive_.storage(described, at::elementSize(type));
  auto known = storages_.find(described.storage.key);
  if (known == storages_.end()) {
    const c10::Storage storage = storage_of(archive_.checked_bytes(entry), mapping_);
    known = storages_.emplace(described.storage.key, storage).first;
  }
  try {
    at::Tensor tensor = at::empty({0}, at::TensorOptions().dtype(type));
    tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(known->second);
    tensor.unsafeGetTensorImpl()->set_storage_offset(described.offset);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(described.sizes, described.strides);
    if (tensor.nbytes() > bytes_left_) {
      throw IoError(
          format("its tensors repeat their storages so often that they would have more than 64 times its bytes: one of them {}",
                 tensor.nbytes()));
    }
    bytes_left_ -= tensor.nbytes();
    if (described.is_conjugated) tensor = tensor.conj().resolve_conj();
    if (described.is_negated) tensor = tensor.neg();
    return tensor;
  } catch (const c10::Error& error) {
    throw IoError(format("a tensor cannot be made: {}", error.what_without_backtrace()));
  }
}

TorchFile::Tensors TorchFile::tensors(const PickleValue& dict) {
  Tensors found;
  for (const auto& [key, value] : *dict.items()) {
    const auto* name = key->as<std::string>();
    if (name == nullptr) continue;
    if (const auto* described = value->as<PickleTensor>()) {
      plain_.charge(1, name->size());
      found.emplace_back(*name, tensor(*described));
    } else if (const std::string problem = foreign_tensor(*value); !problem.empty() && !name->ends_with(kExtraState)) {
      throw IoError(format("{} in it is {}", quoted_text(*name), problem));
    }
  }
  return found;
}

PickleValue* TorchWriter::add(const at::Tensor& tensor) {
  const at::Tensor own = tensor.detach().resolve_conj().resolve_neg().to(at::kCPU);
  const auto [known, is_new] = numbers_.emplace(own.storage().unsafeGetStorageImpl(), storages_.size());
  if (is_new) storages_.push_back(own);
  const std::string dtype(c10::getDtypeNames(own.scalar_type()).first);
  const bool is_typed = storage_class(dtype) != storage_class("");
  const std::size_t element_size = is_typed ? own.element_size() : 1;
  const PickleStorage storage{dtype, std::to_string(known->second),
                              static_cast<std::int64_t>(own.storage().nbytes() / element_size)};
  return tree.add(PickleTensor{storage, own.storage_offset(), own.sizes().vec(), own.strides().vec()});
}

void TorchWriter::write(const PickleValue& root, const std::filesystem::path& file) const {
  const std::string pickle = write_pickle(root);
  AtomicFile output(file);
  std::exception_ptr failure;
  // C code lies between, through which no exception may pass. The archive does not learn of it: its destructor would write
  // again, and throw.
  const auto write_bytes = [&](const void* bytes, std::size_t size) {
    try {
      if (!failure) output.write({static_cast<const char*>(bytes), size});
    } catch (const IoError&) {
      failure = std::current_exception();
    }
    return size;
  };
  try {
    caffe2::serialize::PyTorchStreamWriter archive(write_bytes);
    archive.writeRecord("data.pkl", pickle.data(), pickle.size());
    archive.writeRecord("byteorder", "little", 6);
    for (std::size_t number = 0; number < storages_.size(); ++number) {
      const c10::Storage& storage = storages_[number].storage();
      archive.writeRecord(format("data/{}", number), storage.nbytes() == 0 ? "" : storage.data(), storage.nbytes());
    }
    archive.writeEndOfFile();
  } catch (const c10::Error& error) {
    if (!failure) throw IoError(format("Cannot write '{}': {}.", file, error.what_without_backtrace()));
  }
  if (failure) std::rethrow_exception(failure);
  output.commit();
}

bool is_torch_file(std::string_view bytes) { return bytes.starts_with("PK\x03\x04"); }

TensorFile open_torch_file(const std::filesystem::path& path, const std::string& key) {
  TorchFile file(path);
  if (file.has_sources()) {
    if (is_libtorch_archive(file.root())) return open_libtorch_archive(file, key);
    TorchArchive::refuse_program();
  }
  TensorFile opened;
  if (key.empty() && is_lightning_checkpoint(file.root())) {
    opened.kind = TensorFileKind::kLightning;
    opened.content = read_lightning_checkpoint(file, opened.names);
    return opened;
  }
  opened.kind = TensorFileKind::kStateDict;
  PickledWeights weights = find_weights(file.root(), key);
  opened.not_read = std::move(weights.others);
  if (const auto* tensor = weights.value->as<PickleTensor>()) {
    opened.content.tensors[weights.name] = file.tensor(*tensor);
    opened.names = {weights.name};
    return opened;
  }
  for (auto& [name, tensor] : file.tensors(*weights.value)) {
    if (opened.content.tensors.emplace(name, tensor).second) opened.names.push_back(name);
  }
  return opened;
}

std::vector<ChecksumReport> torch_file_checks(std::string_view bytes) {
  std::vector<ChecksumReport> checks;
  const ZipArchive zip(bytes);
  for (const ZipEntry& entry : zip.entries()) {
    if (entry.crc32 != 0) checks.push_back({entry.name, zip.is_whole(entry)});
  }
  return checks;
}

}  // namespace levin
