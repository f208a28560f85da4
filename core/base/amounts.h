#pragma once

#include <string>

namespace levin {

/// "12.0 us", "3.50 ms", "1.25 s". For hours there is duration_text().
std::string seconds_text(double seconds);

/// "512 B", "64 KiB", "1.5 GiB": a size of memory or a file.
std::string bytes_text(double bytes);

}  // namespace levin
