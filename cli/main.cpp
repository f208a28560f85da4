#include "levin/cli/cli.h"

int main(int argc, char** argv) { return levin::cli::run(argc, argv); }
