#include "levin/core/options/value.h"
