#include "levin/core/protocol/control_group.h"
