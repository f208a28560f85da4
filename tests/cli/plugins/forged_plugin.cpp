// A plug-in that says it was built for another levin. Its code must not run, not even what runs when it is loaded.
#include <cstdlib>

__attribute__((used)) static const char kStamp[] =
    "levin-plug-in{levin=9.9;torch=2.13.0;cxx11_abi=1;cxx_abi=1017;compiler=g++ 99.0}";

namespace {

[[maybe_unused]] const int kRan = setenv("LEVIN_FORGED_PLUGIN_RAN", "1", 1);

}  // namespace
