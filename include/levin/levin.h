#pragma once

// Everything a user of levin needs, LibTorch included. levin's own files include what they use instead.

#include <torch/torch.h>

#include "levin/core/callback.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/data/batch.h"
#include "levin/core/data/data_module.h"
#include "levin/core/data/loader.h"
#include "levin/core/error.h"
#include "levin/core/logger.h"
#include "levin/core/module.h"
#include "levin/core/optim/lr_scheduler.h"
#include "levin/core/optim/optimizer_setup.h"
#include "levin/core/options/options.h"
#include "levin/core/options/registry.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"
