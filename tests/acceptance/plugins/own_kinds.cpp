// A strategy and an accelerator of a user's own, as the documentation shows them.
#include <levin/levin.h>

#include "support/mean_gradients.h"
#include "support/toy_accelerator.h"
