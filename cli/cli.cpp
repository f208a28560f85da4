#include "levin/cli/cli.h"

namespace levin::cli {

int run(int, char**) { return 0; }

}  // namespace levin::cli
