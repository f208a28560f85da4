#include "levin/core/checkpoint/torch_writer.h"

#include <c10/core/ScalarType.h>
#include <caffe2/serialize/inline_container.h>

#include <exception>

#include "levin/core/base/format.h"
#include "levin/core/checkpoint/pickled_torch.h"
#include "levin/core/error.h"
#include "levin/core/files/atomic_file.h"

namespace levin {

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
  // Between here and there is code in C, which no exception may pass.
  const auto write_bytes = [&](const void* bytes, std::size_t size) {
    try {
      if (!failure) output.write({static_cast<const char*>(bytes), size});
    } catch (const IoError&) {
      failure = std::current_exception();
    }
    return failure ? 0 : size;
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

}  // namespace levin
