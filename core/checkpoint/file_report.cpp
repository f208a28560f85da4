#include "levin/core/checkpoint/file_report.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/checkpoint/safetensors_checks.h"
#include "levin/core/checkpoint/safetensors_index.h"
#include "levin/core/checkpoint/tensor_file.h"
#include "levin/core/checkpoint/zip_archive.h"
#include "levin/core/error.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

std::vector<FileReport::Check> checks_of(const fs::path& file) {
  const MappedFile mapping(file);
  std::vector<FileReport::Check> checks;
  if (mapping.bytes().starts_with("PK\3\4")) {
    const ZipArchive zip(mapping.bytes());
    for (const ZipEntry& entry : zip.entries()) {
      if (entry.crc32 != 0) checks.push_back({entry.name, zip.is_whole(entry)});
    }
    return checks;
  }
  if (!looks_like_safetensors_index(mapping.bytes())) return safetensors_checks(mapping.bytes());
  for (const auto& [name, tensors] : parse_safetensors_index(mapping.bytes())) {
    for (FileReport::Check& check : checks_of(file.parent_path() / name)) {
      checks.push_back({format("{} of {}", check.what, name), check.holds});
    }
  }
  return checks;
}

}  // namespace

bool FileReport::is_whole() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.holds; });
}

FileReport inspect_file(const fs::path& file) {
  FileReport report;
  try {
    report.checks = checks_of(TensorFile::place(file));
  } catch (const IoError&) {
    TensorFile::open(file);  // which says more of what is wrong
    throw;
  }
  if (!report.is_whole()) return report;
  const TensorFile opened = TensorFile::open(file);
  report.kind = kind_name(opened.kind);
  if (opened.content.manifest.size() > 0) report.manifest = opened.content.manifest;
  for (const std::string& name : opened.names) {
    const at::Tensor& tensor = opened.content.tensors.at(name);
    const std::string dtype(c10::getDtypeNames(tensor.scalar_type()).first);
    report.tensors.push_back({name, dtype, tensor.sizes().vec(), tensor.nbytes()});
  }
  return report;
}

}  // namespace levin
