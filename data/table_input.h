#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "levin/core/config/value.h"
#include "levin/data/labelled_table.h"
#include "levin/data/table_encoder.h"

// What a program predicts from, as a table that TableReader might have read: scaled.
namespace levin::detail {

/// Of a tensor, [N, …]: columns of categories have numbers into the encoder's texts. Throws MisuseError where rows have another
/// number of columns.
LabelledTable table_of(const TableEncoder& encoder, const TableDataOptions& options, const at::Tensor& features);
/// Of records, each a map by the names of columns; null is a missing value. Throws MisuseError where a column is missing or is
/// no number.
LabelledTable table_of(const TableEncoder& encoder, const TableDataOptions& options, const std::vector<Value>& records);

}  // namespace levin::detail
