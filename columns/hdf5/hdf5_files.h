#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace levin {

/// An array of numbers in an HDF5 file, a dataset, as HDF5 calls it: as it is read. Integers without a sign of more than a byte
/// become wider ones with a sign.
struct Hdf5Array {
  std::string path = {};  ///< "/run/x"
  char kind = 'f';        ///< 'b' truth values, 'i' integers, 'u' those without a sign, 'f' floats; 0 for all that is no number
  std::string content = {};  ///< what it holds instead, where it is no number: "texts"
  std::int64_t bytes = 0;    ///< of an element
  std::vector<std::int64_t> shape = {};
};

/// An open file. Its functions throw std::runtime_error with what is wrong. Threading: any.
class Hdf5File {
 public:
  Hdf5File() = default;
  virtual ~Hdf5File() = default;
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  /// All of it, in the order of their paths, under each name that it has.
  virtual const std::vector<Hdf5Array>& arrays() const = 0;
  /// Writes these rows of an array, which increase, one behind the other into `to`, in the machine's order of bytes: of its
  /// type as stored, truth values as a byte each.
  virtual void read(std::size_t array, std::span<const std::int64_t> rows, std::byte* to) const = 0;
};

/// What reads HDF5 files: liblevin_hdf5.so.
struct Hdf5Files {
  std::unique_ptr<Hdf5File> (*open)(const std::string& path);
  /// The same for a file in memory, which is copied.
  std::unique_ptr<Hdf5File> (*open_memory)(std::span<const std::byte> file);
};

}  // namespace levin

extern "C" __attribute__((visibility("default"))) const levin::Hdf5Files* levin_hdf5_files();
