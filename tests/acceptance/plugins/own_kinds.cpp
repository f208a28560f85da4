// Classes of a user's own, as the documentation shows them.
#include <levin/levin.h>

#include "support/block_shuffle.h"
#include "support/gradient_norm.h"
#include "support/json_lines.h"
#include "support/mean_gradients.h"
#include "support/sign_descent.h"
#include "support/toy_accelerator.h"
