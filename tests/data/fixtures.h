#pragma once

#include <filesystem>

/// Files that the tests of readers share.
inline const std::filesystem::path kFixtures = std::filesystem::path(LEVIN_SOURCE_DIR) / "tests/data/fixtures";
